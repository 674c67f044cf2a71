"""Sources of Bundles that were good once and then become bad: by content, or by their server."""

from tests.support.bad_sources.artifacts import ARTIFACTS
from tests.support.bad_sources.bad_source import BadSource
from tests.support.bad_sources.git_content import CONTENT
from tests.support.bad_sources.git_references import REFERENCES
from tests.support.bad_sources.git_servers import GIT_SERVERS
from tests.support.bad_sources.servers import BadServers, bad_servers

BAD_SOURCES = {**CONTENT, **REFERENCES, **GIT_SERVERS, **ARTIFACTS}
"""What becomes bad, by the name of its Bundle."""

__all__ = ["BAD_SOURCES", "BadServers", "BadSource", "bad_servers"]
