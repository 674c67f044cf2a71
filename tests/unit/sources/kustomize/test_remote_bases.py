"""What a kustomization names outside of its source is found before kustomize runs."""

from __future__ import annotations

import pytest

from applyprune.sources.kustomize import is_pinned, remote_base

FILES = {
    "base/kustomization.yaml": b"resources: [a.yaml]\n",
    "base/a.yaml": b"a: 1\n",
    "p.yaml": b"kind: ConfigMap\n",
    "g.yaml": b"kind: ConfigMapGenerator\nmetadata: {name: g}\nfiles: [p.yaml]\n",
    "https:/x/y/kustomization.yaml": b"resources: []\n",
    "github.com/x/y/kustomization.yaml": b"resources: []\n",
    "git@x/y/kustomization.yaml": b"resources: []\n",
}


def fault(kustomization: str, **more: bytes) -> str:
    files = {**FILES, "kustomization.yaml": kustomization.encode(), **more}
    found = remote_base(files, "")
    return "" if found is None else f"{found.file}: {found.what}: {found.reason}"


@pytest.mark.parametrize(
    "text",
    [
        "resources: [base, p.yaml, ./base/, base/../base]\n",
        "components: [base]\n",
        "bases: [base]\n",
        "namePrefix: https://\ncommonAnnotations: {see: 'https://example.com/'}\n",
        "metadata: {name: x, annotations: {see: 'https://example.com'}}\n",
        "images: [{name: nginx, newName: registry.example.com:5000/nginx}]\n",
        "configMapGenerator: [{name: g, files: [k=p.yaml, p.yaml], literals: ['u=https://x']}]\n",
        "secretGenerator: [{name: g, envs: [p.yaml], literals: ['u=https://x']}]\n",
        "patches: [{path: p.yaml}, {target: {kind: A}, patch: 'https://x'}]\n",
        'patchesStrategicMerge: [p.yaml, "kind: A\\nurl: https://x\\n"]\n',
        "patchesStrategicMerge:\n- |-\n  kind: A\n  url: https://x\n",
        "replacements: [{path: p.yaml}, {source: {kind: A}, targets: []}]\n",
        "generators: [g.yaml]\n",
        "transformers:\n- |-\n  kind: PrefixTransformer\n  prefix: a\n",
        "openapi: {path: p.yaml}\ncrds: [p.yaml]\nconfigurations: [p.yaml]\n",
        "",
    ],
)
def test_kustomization_of_the_source_is_accepted(text: str) -> None:
    assert fault(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"{field}: ['{address}']\n"
            for field in ("resources", "bases", "components", "generators", "transformers")
            for address in (
                "https://x/y",
                "HTTPS://x/y",
                "http://127.0.0.1:8080/",
                "https:/x/y",
                "git::https://x/y",
                "git@x:y/z",
                "git@x/y",
                "ssh://git@x/y",
                "file:///etc",
                "github.com/x/y",
                "GitHub.com/x/y?ref=main",
                "gh:x/y",
                "host:8080/x",
                "../outside",
                "/etc",
                "base/../../x",
                "..",
            )
        ),
        "validators: ['https://x/y']\n",
        "crds: ['https://x/y']\n",
        "configurations: ['https://x/y']\n",
        "openapi: {path: 'https://x/y'}\n",
        "patches: [{path: 'https://x/y'}]\n",
        "patches: [{path: 'https://x/y', patch: ''}]\n",
        "patchesJson6902: [{path: 'https://x/y'}]\n",
        "patchesStrategicMerge: ['https://x/y']\n",
        "replacements: [{path: 'https://x/y'}]\n",
        "configMapGenerator: [{name: g, files: ['k=https://x/y']}]\n",
        "configMapGenerator: [{name: g, files: ['https://x/y']}]\n",
        "configMapGenerator: [{name: g, env: 'https://x/y'}]\n",
        "secretGenerator: [{name: g, envs: ['https://x/y']}]\n",
        "secretGenerator: [{name: g, options: {}, more: {literals: 'https://x/y'}}]\n",
        "helmCharts: [{name: c, repo: 'https://x/y'}]\n",
        "helmCharts: [{name: c, repo: 'oci://x/y'}]\n",
        "helmChartInflationGenerator: [{chartRepoUrl: 'https://x/y'}]\n",
        "aFieldOfTomorrow: {a: [b, {c: 'https://x/y'}]}\n",
        "Resources: ['https://x/y']\n",
        "a: &a ['https://x/y']\nresources: *a\n",
        'resources: ["\\x68ttps://x/y"]\n',
        "generators:\n- |-\n  kind: ConfigMapGenerator\n  files: ['https://x/y']\n",
    ],
)
def test_anything_outside_the_source_is_refused(text: str) -> None:
    assert fault(text).startswith("kustomization.yaml: the kustomization names a URL or a remote")


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("resources: [gone.yaml]\n", {}, "names what the source does not have"),
        ("resources: [x.git/y]\n", {}, "names what the source does not have"),
        ("generators: [base]\n", {}, "must be a file of the source"),
        ("resources: [a\n", {}, "cannot be checked"),
        ("- a\n", {}, "cannot be checked"),
        ("resources: [p.yaml]\nresources: [base]\n", {}, "cannot be checked"),
        ("generators: [x.yaml]\n", {"x.yaml": b"files: ['https://x/y']\n"}, "x.yaml: the kust"),
        ("generators: [x.yaml]\n", {"x.yaml": b"a: [\n"}, "x.yaml: the file cannot be checked"),
        ("", {"Kustomization": b"resources: ['https://x/y']\n"}, "Kustomization: the kust"),
        (
            "resources: [base]\n",
            {"base/kustomization.yaml": b"components: [../more]\n", "more/x": b""},
            "",
        ),
        (
            "resources: [base]\n",
            {
                "base/kustomization.yaml": b"components: [../more]\n",
                "more/kustomization.yml": b"resources: ['https://x/y']\n",
            },
            "more/kustomization.yml: the kustomization names a URL",
        ),
        (
            "resources: [p.yaml]\n",
            {"base/kustomization.yaml": b"resources: ['https://x/y']\n"},
            "",
        ),
    ],
)
def test_each_included_kustomization_is_checked(
    text: str, more: dict[str, bytes], expected: str
) -> None:
    found = fault(text, **more)
    assert expected in found
    assert bool(expected) == bool(found)


def test_kustomizations_that_include_each_other_end() -> None:
    files = {
        "a/kustomization.yaml": b"resources: [../b]\n",
        "b/kustomization.yaml": b"resources: [../a, ../b]\n",
    }
    assert remote_base(files, "a") is None


@pytest.mark.parametrize(
    ("text", "pinned"),
    [
        ("https://github.com/org/repo//deploy?ref=v1.2.3", True),
        ("https://github.com/org/repo//deploy?timeout=90s&ref=1.2.3-rc.1", True),
        ("git@github.com:org/repo//deploy?ref=kustomize/v5.0.1", True),
        (f"github.com/org/repo?ref={'0a' * 20}", True),
        ("https://github.com/org/repo/releases/download/v1.2.3/install.yaml", True),
        (f"https://example.com/{'0a' * 20}/a.json", True),
        ("https://github.com/org/repo//deploy", False),
        ("https://github.com/org/repo//deploy/v1.2.3", False),
        ("https://github.com/org/repo//deploy?ref=main", False),
        ("https://github.com/org/repo//deploy?ref=v1", False),
        ("https://github.com/org/repo//deploy?ref=v1.2", False),
        ("https://github.com/org/repo//deploy?ref=0a0a0a0", False),
        ("https://github.com/org/repo//deploy?version=v1.2.3&ref=main", False),
        ("https://github.com/org/repo//deploy?ref=", False),
        ("https://example.com/latest/install.yaml", False),
        ("https://example.com/v1.2.3/install.yaml?token=1", False),
        ("../base/1.2.3/a.yaml", False),
    ],
)
def test_base_is_pinned_by_a_commit_or_a_whole_version(text: str, pinned: bool) -> None:
    """Else it may be another one tomorrow, with the same text."""
    assert is_pinned(text) is pinned
