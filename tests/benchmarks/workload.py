"""Manifests to measure with: mixed kinds, several namespaces, the same text every time."""

from __future__ import annotations

from collections import Counter
from itertools import cycle, islice
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_PER_NAMESPACE = 100
OLD, NEW = "LOG_LEVEL: info", "LOG_LEVEL: debug"
"""A line of a ConfigMap, and what ``change`` makes of it."""

_NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: $namespace
"""
_CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings-$number
  namespace: $namespace
  labels: {app.kubernetes.io/name: app-$number, app.kubernetes.io/part-of: benchmark}
data:
  LOG_LEVEL: info
  UPSTREAM: http://app-$number.$namespace.svc:8080
  application.yaml: |
    server:
      port: 8080
      gracefulShutdown: true
    cache:
      entries: 10000
      expireAfter: 300s
    features: [search, checkout, recommendations, feature-$number]
"""
_SECRET = """\
apiVersion: v1
kind: Secret
metadata:
  name: credentials-$number
  namespace: $namespace
type: Opaque
data:
  username: YXBwbGljYXRpb24=
  password: bm90LWEtc2VjcmV0LWF0LWFsbA==
"""
_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-$number
  namespace: $namespace
  labels: {app.kubernetes.io/name: app-$number, app.kubernetes.io/part-of: benchmark}
spec:
  replicas: 2
  selector:
    matchLabels: {app.kubernetes.io/name: app-$number}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  template:
    metadata:
      labels: {app.kubernetes.io/name: app-$number}
      annotations:
        prometheus.io/scrape: "true"
    spec:
      serviceAccountName: account-$number
      securityContext: {runAsNonRoot: true}
      containers:
        - name: app
          image: registry.example.com/team/app-$number:1.4.2
          args: [--config=/etc/app/application.yaml]
          ports:
            - {name: http, containerPort: 8080}
            - {name: metrics, containerPort: 9090}
          env:
            - name: POD_NAME
              valueFrom:
                fieldRef: {fieldPath: metadata.name}
            - name: PASSWORD
              valueFrom:
                secretKeyRef: {name: credentials-$number, key: password}
          readinessProbe:
            httpGet: {path: /ready, port: http}
            periodSeconds: 5
          livenessProbe:
            httpGet: {path: /live, port: http}
          resources:
            requests: {cpu: 100m, memory: 128Mi}
            limits: {memory: 256Mi}
          volumeMounts:
            - {name: settings, mountPath: /etc/app, readOnly: true}
      volumes:
        - name: settings
          configMap: {name: settings-$number}
"""
_SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: app-$number
  namespace: $namespace
spec:
  selector: {app.kubernetes.io/name: app-$number}
  ports:
    - {name: http, port: 80, targetPort: http}
    - {name: metrics, port: 9090, targetPort: metrics}
"""
_ACCOUNT = """\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: account-$number
  namespace: $namespace
"""
_ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: role-$number
  namespace: $namespace
rules:
  - apiGroups: [""]
    resources: [configmaps, secrets]
    verbs: [get, list, watch]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [get, create, update]
"""
_ROLE_BINDING = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: binding-$number
  namespace: $namespace
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: role-$number
subjects:
  - kind: ServiceAccount
    name: account-$number
    namespace: $namespace
"""
# One application, nine objects; what the second part of a pair has more in its name.
_APPLICATION = (
    (_CONFIG_MAP, ""),
    (_CONFIG_MAP, "-more"),
    (_SECRET, ""),
    (_SECRET, "-more"),
    (_ACCOUNT, ""),
    (_ROLE, ""),
    (_ROLE_BINDING, ""),
    (_SERVICE, ""),
    (_DEPLOYMENT, ""),
)


KINDS = (
    "Namespace",
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "Service",
    "Deployment",
)
"""The kinds of a set that has an application."""


def write_manifests(folder: Path, objects: int, prefix: str, namespaces: int = 0) -> None:
    """Write so many objects into the folder, a file for each namespace, Namespaces included.

    They belong to applications, named by number, in namespaces whose names begin with ``prefix``.
    """
    folder.mkdir(parents=True)
    count = namespaces or max(1, objects // _PER_NAMESPACE)
    names = [f"{prefix}-{number}" for number in range(count)]
    documents = {name: [Template(_NAMESPACE).substitute(namespace=name)] for name in names}
    for application, template, more in _parts(objects - count):
        namespace = names[application % count]
        text = Template(template).substitute(namespace=namespace, number=f"{application}{more}")
        documents[namespace].append(text)
    for namespace, texts in documents.items():
        (folder / f"{namespace}.yaml").write_text("---\n".join(texts))


def objects_of_kinds(objects: int, namespaces: int) -> Mapping[str, int]:
    """Return how many objects of each kind such a set has."""
    counts = Counter({"Namespace": namespaces})
    for _, template, _ in _parts(objects - namespaces):
        counts[template.partition("kind: ")[2].partition("\n")[0]] += 1
    return counts


def change(folder: Path, most: int = 10) -> int:
    """Change a value in a ConfigMap of each of the first files; return in how many."""
    paths = sorted(folder.glob("*.yaml"))[:most]
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert OLD in text
        path.write_text(text.replace(OLD, NEW, 1), encoding="utf-8")
    return len(paths)


def halve(folder: Path, removed: Path) -> int:
    """Move half of the objects, the last ones of each file, to another folder; return how many.

    The Namespaces stay.
    """
    removed.mkdir(parents=True)
    count = 0
    for path in sorted(folder.glob("*.yaml")):
        texts = path.read_text(encoding="utf-8").split("---\n")
        kept = len(texts) - len(texts) // 2
        path.write_text("---\n".join(texts[:kept]), encoding="utf-8")
        (removed / path.name).write_text("---\n".join(texts[kept:]), encoding="utf-8")
        count += len(texts) - kept
    return count


def _parts(count: int) -> Iterator[tuple[int, str, str]]:
    """Yield the number of the application, the template, and what is more in the name of each."""
    for index, (template, more) in enumerate(islice(cycle(_APPLICATION), count)):
        yield index // len(_APPLICATION), template, more
