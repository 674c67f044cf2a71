"""``applyprune controller`` and ``install``: run the Bundle controller, or install it as a set."""

from __future__ import annotations

import ipaddress
import os
import re
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from applyprune._version import pip_install
from applyprune.cli.options import (
    APPLY,
    CLUSTER,
    GUARDS,
    OUTPUT,
    PRUNE,
    RUN,
    WAIT,
    WATCH_NAMESPACES,
    Option,
    command,
    not_empty,
)
from applyprune.errors import UsageError
from applyprune.model.options import CONTROLLER_NAMESPACE, DryRun
from applyprune.sources.documents import read_documents
from applyprune.sources.yaml import Document
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from applyprune.addresses import IPNetwork
    from applyprune.cli.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.options import Options
    from applyprune.model.problem import Problem
    from applyprune.sources import Input


def _networks(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[IPNetwork, ...]:
    """Return the networks of CIDRs such as 127.0.0.0/8."""
    try:
        return tuple(ipaddress.ip_network(value) for value in values)
    except ValueError as error:
        raise click.BadParameter(f"{error}, as in 127.0.0.0/8", ctx, param) from None


_PACKAGES = ("prometheus_client", "pydantic")
_SIZE = pattern(r"([1-9][0-9]{0,5})(Mi|Gi)")
_UNITS = {"Mi": 1 << 20, "Gi": 1 << 30}


def _size(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Return the bytes of a size such as 256Mi."""
    match = _SIZE.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a size such as 256Mi or 1Gi", ctx, param)
    return int(match[1]) * _UNITS[match[2]]


@command(
    CLUSTER,
    WATCH_NAMESPACES.but(
        help="The namespaces whose Bundles the controller handles.  [default: all]"
    ),
    Option(
        "--workers",
        type=click.IntRange(1, 64),
        default=4,
        show_default=True,
        metavar="N",
        help="How many worker processes reconcile Bundles, one at a time each.",
    ),
    Option(
        "--reconcile-memory",
        default="256Mi",
        show_default=True,
        metavar="SIZE",
        callback=_size,
        help="Memory that one reconcile may use, beyond that of an idle worker.",
    ),
    Option(
        "--listen",
        default=":8080",
        show_default=True,
        metavar="[ADDRESS]:PORT",
        help="Address of /livez, /healthz, /readyz and /metrics; port 0 picks a free port.",
    ),
    Option(
        "--allow-network",
        "networks",
        multiple=True,
        metavar="CIDR",
        callback=_networks,
        help="A network that other clusters may be in, although its addresses are otherwise "
        "refused.",
    ),
    Option(
        "--source-cache",
        default="1Gi",
        show_default=True,
        metavar="SIZE",
        callback=_size,
        help="Space on the disk for sources that were read from other hosts.",
    ),
    Option(
        "--allow-source-cidr",
        "allowed_sources",
        multiple=True,
        metavar="CIDR",
        callback=_networks,
        help="A network that hosts of sources may be in, although its addresses are otherwise "
        "refused.",
    ),
    Option(
        "--deny-source-cidr",
        "denied_sources",
        multiple=True,
        metavar="CIDR",
        callback=_networks,
        help="A network that no host of a source may be in, such as the cluster's Pod network.",
    ),
    Option("-v", "--verbose", is_flag=True, help="Log debug messages, too."),
)
def controller(
    cluster_target: ClusterTarget,
    watch_namespaces: tuple[str, ...],
    workers: int,
    reconcile_memory: int,
    listen: str,
    networks: tuple[IPNetwork, ...],
    source_cache: int,
    allowed_sources: tuple[IPNetwork, ...],
    denied_sources: tuple[IPNetwork, ...],
    verbose: bool,
) -> int:
    """Run the Bundle controller: apply and prune Bundles continuously.

    Runs in a cluster, or anywhere with a kubeconfig. -n is the namespace of its Lease. The
    controller acts for each Bundle as a ServiceAccount of the Bundle's namespace.

    \b
    Examples:
      applyprune controller --kubeconfig admin.conf
      applyprune controller --watch-namespaces shop,blog -n shop
    """
    missing = next((name for name in _PACKAGES if find_spec(name) is None), "")
    if missing:
        raise UsageError(
            "the controller cannot run",
            reason=f"the package {missing} is not installed",
            hint=pip_install("controller"),
        )
    from applyprune.addresses import AddressRules
    from applyprune.cli.session import cancel_on_signals
    from applyprune.cluster.access import cluster_access
    from applyprune.controller.process import ControllerSettings, serve
    from applyprune.controller.reasons import log_to_stderr
    from applyprune.controller.worker import WorkerLimits

    log_level = "debug" if verbose else "info"
    log_to_stderr(log_level)
    access = cluster_access(
        kubeconfig=cluster_target.kubeconfig, context=cluster_target.context, environ=os.environ
    )
    settings = ControllerSettings(
        access=access,
        listen=_address(listen),
        lease_namespace=cluster_target.namespace or access.namespace,
        namespaces=watch_namespaces,
        workers=workers,
        limits=WorkerLimits(memory=reconcile_memory),
        log_level=log_level,
        addresses=AddressRules(networks),
        source_addresses=AddressRules(allowed_sources, denied_sources),
        source_cache=source_cache,
    )
    with cancel_on_signals(cluster_target) as stop:
        return serve(settings, stop)


def _address(text: str) -> tuple[str, int]:
    from applyprune.addresses import InvalidHost, endpoint_anywhere

    host, _, port = text.rpartition(":")
    # Port 0 picks a free one; without a host, every address is meant.
    checked = "1" if port == "0" else port or "none"
    try:
        end = endpoint_anywhere(f"http://{host or 'localhost'}:{checked}")
    except InvalidHost as error:
        raise UsageError(
            f"invalid address --listen {text!r}",
            reason=str(error),
            hint="Write :8080, 127.0.0.1:8080 or [::1]:8080.",
        ) from None
    return end.host if host else "", int(port)


# The files in ``deploy/`` are changed as text, not as data: so -o yaml keeps their comments, and
# ``deploy/`` is the only place that lists what the controller needs.


_SET = "applyprune"
"""The name of the controller's set."""
_LEFT_TO_ADMINS = tuple(
    f"deployment.apps/applyprune-controller:{pointer}"
    for pointer in (
        "/spec/replicas",
        '/spec/template/spec/containers[name="controller"]/resources',
    )
)
"""What is sent at the creation only: admins change it for their cluster."""


_AS_YAML = "applyprune.as-yaml"


def _without_yaml(
    ctx: click.Context, _: click.Parameter, formats: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the formats of events; note in ``ctx.meta`` that ``yaml`` is asked for."""
    if "yaml" in formats:
        ctx.meta[_AS_YAML] = True
    return tuple(form for form in formats if form != "yaml")


@command(
    CLUSTER,
    RUN,
    PRUNE,
    GUARDS,
    APPLY,
    (OUTPUT[0].but(callback=_without_yaml), *OUTPUT[1:]),
    Option(
        "--image",
        default="",
        metavar="IMAGE",
        callback=not_empty,
        help="The controller's image, which the nodes must be able to pull.  "
        "[default: applyprune:VERSION]",
    ),
    WATCH_NAMESPACES.but(
        help="The namespaces whose Bundles the controller handles, and where it gets its rights.  "
        "[default: all]"
    ),
    WAIT.but(
        help="Wait until the controller runs. --no-wait prunes without waiting. By default, only "
        "what may still need an object that is pruned is waited for.",
    ),
    # What kubectl has installed before goes with the rest.
    context_settings={"default_map": {"record_as": "owned", "create_namespace": True}},
)
def install(
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    image: str,
    watch_namespaces: tuple[str, ...],
) -> int:
    """Install the controller in the cluster, or update it.

    It becomes the set `applyprune` in the namespace `applyprune-system`, or in the one that -n
    names, also what kubectl has applied before. An update leaves the Deployment's replicas and
    resources as they are. `applyprune delete` removes it, except the CRD and the namespace, when no
    Bundle needs the controller any more. With --dry-run=client -o yaml, it prints the manifests and
    contacts no server.

    \b
    Examples:
      applyprune install --image registry.example.com/applyprune:0.1.0 --wait
      applyprune install --watch-namespaces shop,blog --dry-run
      applyprune install --dry-run=client -o yaml > applyprune.yaml
      applyprune delete applyprune -n applyprune-system
    """
    from applyprune.cli.session import run_set

    cluster_target = replace(
        cluster_target, namespace=cluster_target.namespace or CONTROLLER_NAMESPACE
    )
    text = installation(
        packaged_folder("deploy"),
        namespace=cluster_target.namespace,
        image=image,
        watched_namespaces=watch_namespaces,
    )
    if _AS_YAML in click.get_current_context().meta:
        if options.dry_run is not DryRun.CLIENT:
            raise UsageError(
                "-o yaml prints the manifests, and installs nothing",
                hint="Add --dry-run=client.",
            )
        return reporting.print_text(text.rstrip("\n"))
    options = replace(
        options,
        check=options.dry_run is DryRun.SERVER,
        apply=replace(options.apply, ignore=(*options.apply.ignore, *_LEFT_TO_ADMINS)),
    )
    read = partial(_read_text, text)
    return reporting.print_events(run_set(cluster_target, _SET, read, options, is_named=False))


_ORIGIN = "install -o yaml"


def _read_text(text: str, *, warn: Callable[[Problem], None]) -> Input:
    """Return the manifests of a text; their origins are lines of the output of -o yaml."""
    from applyprune.sources import Input, read

    manifests = [
        replace(manifest, origin=replace(manifest.origin, path=_ORIGIN))
        for manifest in read(("-",), stdin=BytesIO(text.encode()), warn=warn)
    ]
    return Input(tuple(manifests), {_ORIGIN: text})


_NAMESPACE_IN_TEXT = pattern(rf"\b{CONTROLLER_NAMESPACE}\b")
_IMAGE = pattern(r"(?<= image: )applyprune:\S+$", re.MULTILINE)
_IMAGE_NAME = pattern(r"[A-Za-z0-9][\w./:@-]*", re.ASCII)
_NAMESPACE = "\nkind: Namespace\n"


def installation(
    folder: Path,
    *,
    namespace: str = CONTROLLER_NAMESPACE,
    image: str = "",
    watched_namespaces: Sequence[str] = (),
) -> str:
    """Return the YAML documents of ``folder``, in the order of its kustomization.

    Another ``namespace`` is used without its Namespace document. ``image`` replaces that of the
    Deployment. With ``watched_namespaces`` the controller handles only those, and has rights only
    there. Raises UsageError for an invalid image.
    """
    if image and not _IMAGE_NAME.fullmatch(image):
        raise UsageError(
            f"invalid image name {image!r}", hint="Write HOST/PATH:TAG or HOST/PATH@DIGEST."
        )
    texts = [(folder / name).read_text(encoding="utf-8") for name in _files(folder)]
    documents = [document for text in texts for document in text.split("---\n")]
    if namespace != CONTROLLER_NAMESPACE:
        # The user's own namespace: keep its Pod security level.
        documents = [document for document in documents if _NAMESPACE not in document]
    if watched_namespaces:
        documents = [
            limited
            for document in documents
            for limited in _limited_to(document, watched_namespaces)
        ]
    text = "---\n".join(documents)
    if image:
        text = _IMAGE.sub(image, text)
    return _NAMESPACE_IN_TEXT.sub(namespace, text)


def _files(folder: Path) -> list[str]:
    (document,) = read_documents((folder / "kustomization.yaml").read_bytes())
    content = document.content
    return list(content.value["resources"]) if isinstance(content, Document) else []


_ARGUMENT = pattern(r"^( +- )controller$", re.MULTILINE)
_BINDING = "kind: ClusterRoleBinding\nmetadata:\n  name: applyprune-controller\n"
_EVERYWHERE = "kind: ClusterRole\nmetadata:\n  name: applyprune-controller-crd\n"
"""The role whose binding stays one for the whole cluster."""
_HOME = """\
  # Read the UID of this cluster: in another one, it names the owner of a set.
  - apiGroups: [""]
    resources: [namespaces]
    resourceNames: [kube-system]
    verbs: [get]
"""


def _limited_to(document: str, watched_namespaces: Sequence[str]) -> Iterator[str]:
    """Yield a document, changed for a controller that handles some namespaces only."""
    if _EVERYWHERE in document:
        yield document + _HOME
        return
    if _BINDING not in document:
        argument = f"--watch-namespaces={','.join(watched_namespaces)}"
        yield _ARGUMENT.sub(rf"\g<0>\n\g<1>{argument}", document)
        return
    for namespace in watched_namespaces:
        binding = _BINDING.replace("ClusterRole", "Role") + f"  namespace: {namespace}\n"
        yield document.replace(_BINDING, binding)


_PACKAGE = Path(__file__).parent.parent
_CHECKOUT = {"demo": "fixtures/demo", "deploy": "deploy"}


def packaged_folder(name: str) -> Path:
    """Return the folder ``demo`` or ``deploy``, from ``applyprune/_data`` or from the checkout.

    Raises UsageError if neither exists.
    """
    folders = (_PACKAGE / "_data" / name, _PACKAGE.parent / _CHECKOUT[name])
    for folder in folders:
        if folder.is_dir():
            return folder
    raise UsageError(
        f"the folder {name!r} of the installation is missing",
        reason=f"neither {folders[0]} nor {folders[1]} exists",
        hint="Install applyprune again.",
    )
