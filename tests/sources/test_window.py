from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.sources.capture import ReadWindow

DATA = bytes(range(256)) * 4


class Trickle:
    """A source that gives at most ``step`` bytes at a time, and if hasty nothing in time each second time."""

    compression = failure = ""

    def __init__(self, data, step, hasty=False):
        self.data, self.step, self.hasty, self.late = data, step, hasty, False

    def readinto(self, view, timeout_s=None):
        self.late = self.hasty and not self.late
        if timeout_s is not None and self.late:
            return None
        part, self.data = self.data[: min(self.step, len(view))], self.data[min(self.step, len(view)) :]
        view[: len(part)] = part
        return len(part)


@settings(max_examples=50)
@given(
    size=st.integers(1, 300),
    step=st.integers(1, 200),
    hasty=st.booleans(),
    uses=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 500)), max_size=20),
)
def test_the_window_shows_the_bytes_of_its_offset_whatever_was_used_or_passed_over(size, step, hasty, uses):
    window = ReadWindow(Trickle(DATA, step, hasty), size)
    offset = 0
    for use, need in uses:
        before = window.left
        window.fill(need)
        assert window.ended or window.left > min(before, 0)
        assert window.offset == offset
        if window.left >= 0:
            assert bytes(window.buffer[window.start : window.stop]) == DATA[offset : offset + window.left]
            assert window.head(5) == DATA[offset : offset + min(5, window.left)]
        window.start += use
        offset += use
    while not window.ended:
        window.fill(1 + max(window.left, 0))
    assert offset + window.left == len(DATA)


def test_the_buffer_grows_for_a_large_need_and_shrinks_again():
    window = ReadWindow(Trickle(DATA, 1000), 100)
    window.fill(1)
    assert (window.left, len(window.buffer)) == (100, 100)
    window.fill(700)
    assert (window.left, len(window.buffer)) == (700, 700)
    window.start += 690
    window.fill(1)
    assert (window.left, len(window.buffer), window.offset) == (100, 100, 690)


def test_the_buffer_begins_small_and_grows_while_it_is_filled():
    window = ReadWindow(Trickle(bytes(9 << 20), 1 << 20), 4 << 20)
    sizes = []
    while not window.ended:
        window.fill(1)
        sizes.append((window.left, len(window.buffer)))
        window.start = window.stop
    assert sizes == [(n << 18, n << 18) for n in (1, 4, 16)] + [((9 << 20) - (21 << 18), 4 << 20)]


def test_a_full_window_is_not_waited_for():
    window = ReadWindow(Trickle(DATA, 10), 30)
    window.fill(1)
    assert (window.left, window.ended) == (30, False)


def test_what_has_arrived_is_shown_when_no_more_comes_in_time():
    window = ReadWindow(Trickle(DATA, 7, hasty=True), 1000)
    window.fill(1)
    assert 7 <= window.left < 1000
    assert not window.ended
