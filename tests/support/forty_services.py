"""A repository with dev and prod of 40 sets that share a base: ``python -m tests.support.… DIR``.

The texts are the same every time. ``deploy/base`` has a kustomize base and two components; each
environment has a folder for each set, with its ``applyprune.yaml`` and its overlay. Some sets have
plain files. The set ``platform`` has a CRD and namespaces, and some others depend on it. Nothing
needs a node.
"""

from __future__ import annotations

import os
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import click

from tests.support.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ENVIRONMENTS = ("dev", "prod")
PLATFORM = "platform"
CONCERNED = ("api", "payments", "web")
"""The sets of prod that ``change_sets`` changes, in the order of their folders."""
_ACCESS, _BASE, _API, _WEB = 2, 4, 6, 4
"""Objects: of the component, of the base, of the set api, and of web beside the base."""
_SERVICES = (
    *("web", "api", "payments", "accounts", "alerts", "audit", "basket", "billing", "cache"),
    *("catalog", "chat", "content", "coupons", "delivery", "email", "events", "archive", "faq"),
    *("fraud", "gateway", "geo", "images", "imports", "invoices", "ledger", "loyalty", "media"),
    *("orders", "pricing", "profile", "ratings", "refunds", "reports", "returns", "search"),
    *("sessions", "stock", "taxes", "tracking"),
)

_SCHEMA = Path(__file__).parents[2] / "applyprune/output/schemas/config.json"
_SCHEMA_LINE = "# yaml-language-server: $schema=applyprune.schema.json\n"
_HEAD = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\n"
_BUILD = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
_COMPONENT = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
_APPLICATION = {
    "account.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: ${prefix}app}\n",
    "deployment.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: ${prefix}app}
spec:
  replicas: 0
  selector: {matchLabels: {app: $app}}
  template:
    metadata: {labels: {app: $app}}
    spec:
      serviceAccountName: ${prefix}app
      containers:
        - name: app
          image: registry.example.com/shop/app:1.0.0
          envFrom: [{configMapRef: {name: ${prefix}settings}}]
""",
    "service.yaml": """\
apiVersion: v1
kind: Service
metadata: {name: ${prefix}app}
spec: {selector: {app: $app}, ports: [{name: http, port: 80}]}
""",
    "settings.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: ${prefix}settings}
data: {LOG_LEVEL: info}
""",
}
"""What the base has, and a set of plain files with the prefix of its names."""
_RIGHTS = {
    "role.yaml": """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
""",
    "binding.yaml": """\
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: app}]
""",
}
_DEBUG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {LOG_LEVEL: debug}
"""
_OWN = (
    ("flags", "kind: ConfigMap\nmetadata: {name: $name}\ndata: {value: one}\n"),
    ("token", "kind: Secret\nmetadata: {name: $name}\nstringData: {value: one}\n"),
    ("limits", "kind: ConfigMap\nmetadata: {name: $name}\ndata: {most: '10'}\n"),
    ("worker", "kind: ServiceAccount\nmetadata: {name: $name}\n"),
    ("internal", "kind: Service\nmetadata: {name: $name}\nspec: {ports: [{port: 81}]}\n"),
)
"""The objects that a set has beside the base; further ones are ConfigMaps."""
_CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $plural.forty.example.com}
spec:
  group: forty.example.com
  scope: Namespaced
  names: {kind: $kind, plural: $plural}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def repository_files(
    services: int = 40,
    objects: int = 8,
    *,
    contexts: Mapping[str, str] | None = None,
    prefix: str = "",
    builds: bool = True,
) -> dict[str, str]:
    """Return the text of each file, by its path.

    Each environment has so many sets, ``platform`` among them. Each set has so many objects, 8 or
    more; only api has 6, and platform 4. ``contexts`` has the context of an environment, which by
    default is its name; an empty one is not written. ``prefix`` is before the names of namespaces,
    and makes the kind of the CRD another one. Without ``builds``, all sets have plain files.
    """
    assert services > len(CONCERNED)
    assert objects >= _BASE + _WEB
    files = {
        "applyprune.schema.json": _SCHEMA.read_text(encoding="utf-8"),
        "applyprune.yaml": f"{_SCHEMA_LINE}{_HEAD}timeout: 5m\n",
        **(dict(_base_files()) if builds else {}),
    }
    kind = f"{prefix.title().replace('-', '')}Banner"
    names = [*_SERVICES, *(f"service-{number}" for number in range(len(_SERVICES), services))]
    for environment in ENVIRONMENTS:
        top = f"deploy/{environment}"
        context = (contexts or {}).get(environment, environment)
        condition = f"context: {context}\n" if context else ""
        files[f"{top}/applyprune.yaml"] = (
            f"{_HEAD}{condition}namespace: {prefix}shop\ncreate-namespace: true\n"
        )
        files |= _below(f"{top}/{PLATFORM}", _platform_files(prefix, kind))
        for number, name in enumerate(names[: services - 1]):
            own = _own_files(number, name, objects, kind)
            is_plain = not builds or number % 10 == 5
            has_rights = number % 3 == 0 and name not in CONCERNED and not is_plain
            for left in list(own)[len(own) - _ACCESS :] if has_rights else ():
                del own[left]
            if is_plain:
                found = _plain_files(name, own)
            else:
                parts = [*(["access"] if has_rights else []), *_parts_of(environment)]
                found = _overlay_files(name, own, parts)
            found["applyprune.yaml"] = _head_of(number, name, prefix, is_plain=is_plain)
            files |= _below(f"{top}/{name}", found)
    return files


def write_repository(
    folder: Path,
    services: int = 40,
    objects: int = 8,
    *,
    contexts: Mapping[str, str] | None = None,
    prefix: str = "",
    builds: bool = True,
) -> None:
    """Write ``repository_files`` into a folder, without Git."""
    files = repository_files(services, objects, contexts=contexts, prefix=prefix, builds=builds)
    for name, text in files.items():
        _write(folder / name, text)


def committed(
    folder: Path,
    services: int = 40,
    objects: int = 8,
    *,
    contexts: Mapping[str, str] | None = None,
    prefix: str = "",
    builds: bool = True,
) -> Repository:
    """Return a new Git repository with one commit of ``repository_files``."""
    repository = Repository(folder)
    write_repository(folder, services, objects, contexts=contexts, prefix=prefix, builds=builds)
    repository.commit()
    return repository


def change_sets(folder: Path, environment: str = "prod") -> None:
    """Change three sets of an environment, in the work tree.

    Of web, 2 objects change and 1 leaves; of api, 4 of 6 leave, because a line or a file is gone by
    mistake; payments gets 1 more.
    """
    top = folder / "deploy" / environment
    web, api, payments = (_Manifests.of(top / name) for name in ("web", "api", "payments"))
    for name in ("flags", "token"):
        _replace(web.folder / f"{name}.yaml", "value: one", "value: two")
    web.remove("limits.yaml")
    api.remove("app.yaml" if api.build is None else "../../base")
    payments.add("rates.yaml", payments.text("payments", "rates", _OWN[0][1]))


def _base_files() -> Iterator[tuple[str, str]]:
    values = {"prefix": "", "app": "app"}
    for name, text in _APPLICATION.items():
        yield f"deploy/base/{name}", Template(text).substitute(values)
    yield "deploy/base/kustomization.yaml", f"{_BUILD}{_list('resources', _APPLICATION)}"
    for name, text in _RIGHTS.items():
        yield f"deploy/base/access/{name}", text
    yield "deploy/base/access/kustomization.yaml", f"{_COMPONENT}{_list('resources', _RIGHTS)}"
    yield "deploy/base/debug/settings.yaml", _DEBUG
    yield (
        "deploy/base/debug/kustomization.yaml",
        f"{_COMPONENT}patches: [{{path: settings.yaml}}]\n",
    )


def _parts_of(environment: str) -> list[str]:
    """Return the components that all overlays of an environment have."""
    return ["debug"] if environment == "dev" else []


def _own_files(number: int, name: str, objects: int, kind: str) -> dict[str, str]:
    """Return the manifests of a set beside the base, without the prefix of their names."""
    count = (_API if name == "api" else objects) - _BASE
    more = ((f"list-{one}", _OWN[0][1]) for one in range(len(_OWN), count))
    texts = dict([*_OWN, *more][:count])
    if _has_banner(number):
        texts["flags"] = f"kind: {kind}\nmetadata: {{name: $name}}\nspec: {{text: hello}}\n"
    return texts


def _has_banner(number: int) -> bool:
    return number % 12 == 9


def _is_paid(number: int) -> bool:
    """Return whether a set is in the namespace pay."""
    return number % 8 == 2


def _head_of(number: int, name: str, prefix: str, *, is_plain: bool) -> str:
    """Return the file of a set."""
    text = f"{_HEAD}name: {name}\n"
    text += "filename: manifests\n" if is_plain else "kustomize: .\n"
    if _is_paid(number):
        text += f"namespace: {prefix}pay\n"
    if _is_paid(number) or _has_banner(number):
        text += f"dependsOn: [{prefix}{PLATFORM}/{PLATFORM}]\n"
    return text


def _manifest(text: str, name: str) -> str:
    is_own = "hello" in text
    version = "forty.example.com/v1" if is_own else "v1"
    return f"apiVersion: {version}\n{Template(text).substitute(name=name)}"


def _plain_files(name: str, own: Mapping[str, str]) -> dict[str, str]:
    values = {"prefix": f"{name}-", "app": name}
    shared = "---\n".join(Template(text).substitute(values) for text in _APPLICATION.values())
    found = {f"manifests/{one}.yaml": _manifest(text, f"{name}-{one}") for one, text in own.items()}
    return {"manifests/app.yaml": shared, **found}


def _overlay_files(name: str, own: Mapping[str, str], parts: list[str]) -> dict[str, str]:
    files = {f"{one}.yaml": _manifest(text, one) for one, text in own.items()}
    text = (
        f"{_BUILD}namePrefix: {name}-\n"
        f"labels: [{{pairs: {{app: {name}}}, includeSelectors: true}}]\n"
        f"{_list('resources', ['../../base', *files])}"
    )
    if parts:
        text += _list("components", [f"../../base/{part}" for part in parts])
    return {**files, "kustomization.yaml": text}


def _platform_files(prefix: str, kind: str) -> dict[str, str]:
    crd = Template(_CRD).substitute(kind=kind, plural=f"{kind.lower()}s")
    names = [f"{prefix}{PLATFORM}", f"{prefix}pay"]
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: $name}\n"
    return {
        "applyprune.yaml": f"{_HEAD}name: {PLATFORM}\nnamespace: {names[0]}\nfilename: manifests\n",
        "manifests/crd.yaml": crd,
        "manifests/namespaces.yaml": "---\n".join(
            Template(space).substitute(name=name) for name in names
        ),
        "manifests/settings.yaml": _manifest(_OWN[0][1], "platform-settings"),
    }


def _list(key: str, items: Mapping[str, str] | list[str]) -> str:
    return "".join((f"{key}:\n", *(f"  - {item}\n" for item in items)))


def _below(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in files.items()}


# The change.


class _Manifests:
    """The manifests of a set: a folder of plain files, or an overlay that lists them."""

    def __init__(self, folder: Path, build: Path | None) -> None:
        self.folder = folder
        self.build = build

    @classmethod
    def of(cls, folder: Path) -> _Manifests:
        build = folder / "kustomization.yaml"
        return cls(folder, build) if build.exists() else cls(folder / "manifests", None)

    def text(self, service: str, name: str, template: str) -> str:
        return _manifest(template, name if self.build else f"{service}-{name}")

    def add(self, name: str, text: str) -> None:
        _write(self.folder / name, text)
        if self.build is not None:
            _replace(self.build, "resources:\n", f"resources:\n  - {name}\n")

    def remove(self, name: str) -> None:
        if (file := self.folder / name).is_file():
            file.unlink()
        if self.build is not None:
            _replace(self.build, f"  - {name}\n", "")


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    # Git takes a file of the same size and time for the same.
    _write(path, text.replace(old, new), time=2)


def _write(path: Path, text: str, time: int = 1) -> None:
    """Write a file that has rested for long: a run waits for one that is still being written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    os.utime(path, (time, time))


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--services", default=40, show_default=True, help="The sets of each environment.")
@click.option("--objects", default=8, show_default=True, help="The objects of each set.")
@click.option("--context", help="Of both environments, instead of dev and prod.")
@click.option("--plain", is_flag=True, help="Plain files only: nothing needs a build.")
@click.option("--change", is_flag=True, help="Also commit a change to three sets of prod.")
def main(
    *, folder: Path, services: int, objects: int, context: str | None, plain: bool, change: bool
) -> None:
    """Make a Git repository of many sets in a new folder."""
    contexts = None if context is None else dict.fromkeys(ENVIRONMENTS, context)
    repository = committed(folder, services, objects, contexts=contexts, builds=not plain)
    if change:
        change_sets(folder)
        repository.commit()


if __name__ == "__main__":
    main()
