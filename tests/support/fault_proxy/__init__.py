"""A proxy in front of a real API server: it records every request and can make any fail.

with FaultProxy(plane) as proxy:
    proxy.rule = first(2, faults.lose_reply(), where=lambda seen: seen.method == "PATCH")
    run(proxy.kubeconfig(tmp_path))
    assert [seen.method for seen in proxy.exchanges] == ["PATCH", "PATCH", "PATCH"]
"""

from tests.support.fault_proxy import faults
from tests.support.fault_proxy.exchange import Exchange, Fault, Rule
from tests.support.fault_proxy.held import Held
from tests.support.fault_proxy.proxy import FaultProxy
from tests.support.fault_proxy.rules import always, blind_after_delete, first, number

__all__ = [
    "Exchange",
    "Fault",
    "FaultProxy",
    "Held",
    "Rule",
    "always",
    "blind_after_delete",
    "faults",
    "first",
    "number",
]
