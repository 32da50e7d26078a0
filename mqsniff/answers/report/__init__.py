"""Items of a run in, one HTML page about them out: the numbers of ``mqsniff stats``, and how they went over time.

1. The page is one file: it opens offline, and its content-security policy lets nothing in or out.
2. Sections are those of ``TrafficStats``; what is beside them here is time, and is bounded: buckets, kept names, and
   the connections that say most. What is left out is counted together and named so.
3. Each number has the command that shows the rows after it (``rowsbehind``).
"""

from mqsniff.answers.report.collecting import TrafficReport
from mqsniff.answers.report.document import document_of
from mqsniff.answers.report.page import html_of

__all__ = ["TrafficReport", "document_of", "html_of"]
