"""A file system that dies: the process is gone before or in the middle of its n-th change."""

from __future__ import annotations

from typing import Any

from pyarrow import fs


class Killed(Exception):  # noqa: N818  # it says what happened
    """The process died here."""


class DyingFiles(fs.FileSystemHandler):
    """A local file system that dies after its first ``left`` changes; without ``renames`` it cannot move."""

    def __init__(self, left: int = 1 << 30, *, renames: bool = True) -> None:
        self.local = fs.LocalFileSystem()
        self.left = left
        self.renames = renames
        self.changes = 0
        self.reads = 0
        self.listed: list[str] = []

    def _change(self) -> None:
        if self.changes >= self.left:
            raise Killed
        self.changes += 1

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return "dying"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return self.local.get_file_info(paths)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self.listed.append(selector.base_dir)
        return self.local.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._change()
        self.local.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        """Delete file by file, so that it can die half way through a folder."""
        if self.local.get_file_info(path).type == fs.FileType.NotFound:
            raise FileNotFoundError(path)
        for info in self.local.get_file_info(fs.FileSelector(path, recursive=True)):
            if info.type == fs.FileType.File:
                self.delete_file(info.path)
        self._change()
        self.local.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self._change()
        self.local.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        assert self.renames, "an object store cannot rename"
        self._change()
        self.local.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def open_input_stream(self, path: str) -> Any:
        self.reads += 1
        return self.local.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self.local.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        """Object stores show a file when it is closed, so there dying leaves none; elsewhere it leaves an empty one."""
        if self.renames and self.changes == self.left:
            self.local.open_output_stream(path).close()
        self._change()
        return self.local.open_output_stream(path)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError
