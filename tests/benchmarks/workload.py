"""Manifests to measure with: mixed kinds, several namespaces, the same text every time."""

from __future__ import annotations

from itertools import cycle, islice
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PER_NAMESPACE = 100

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


def write_manifests(folder: Path, objects: int, prefix: str) -> None:
    """Write so many objects into the folder, a file for each namespace, Namespaces included.

    They belong to applications, named by number, in namespaces whose names begin with ``prefix``.
    """
    folder.mkdir(parents=True)
    namespaces = [f"{prefix}-{number}" for number in range(max(1, objects // _PER_NAMESPACE))]
    documents = {
        namespace: [Template(_NAMESPACE).substitute(namespace=namespace)]
        for namespace in namespaces
    }
    wanted = islice(cycle(_APPLICATION), objects - len(namespaces))
    for index, (template, more) in enumerate(wanted):
        application = index // len(_APPLICATION)
        namespace = namespaces[application % len(namespaces)]
        text = Template(template).substitute(namespace=namespace, number=f"{application}{more}")
        documents[namespace].append(text)
    for namespace, texts in documents.items():
        (folder / f"{namespace}.yaml").write_text("---\n".join(texts))
