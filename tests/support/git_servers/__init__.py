"""Real Git servers on loopback, with repositories to which a test commits.

``with git_site(tmp_path) as site:`` serves over HTTPS, ``with ssh_site(tmp_path) as site:`` over
SSH. ``site.repository("web")`` is an empty repository to which a test commits, and
``site.source("web")`` reads its branch main, with ``site.credentials``.
"""

from tests.support.git_servers.https_site import HttpsSite, git_site
from tests.support.git_servers.repository import LFS_POINTER, LINK, SUBMODULE, Repository, author
from tests.support.git_servers.ssh_site import SshSite, ssh_site

__all__ = [
    "LFS_POINTER",
    "LINK",
    "SUBMODULE",
    "HttpsSite",
    "Repository",
    "SshSite",
    "author",
    "git_site",
    "ssh_site",
]
