"""The one executor of plans: models on a device, which share weights."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self
from weakref import WeakSet, WeakValueDictionary

from ...ir.plan import Role
from ..errors import KernelFault, Poisoned, expect
from .errors import PlanMismatch, PlanTooLarge
from .kernels import BundleKernels
from .model import Model
from .storages import Storages

if TYPE_CHECKING:
    from ...ir.plan import Plan
    from ..bundle import Bundle
    from ..device import Device
    from ..memory import Buffer
    from .weights import Weights


class Engine:
    """Models on an open device, from the artifacts of a bundle. It does not close the device."""

    def __init__(self, device: Device, bundle: Bundle) -> None:
        self.device, self.bundle = device, bundle
        self._resident: WeakValueDictionary[tuple[str, str], Buffer] = WeakValueDictionary()
        self._pending: WeakSet[Model] = WeakSet()  # stepped since the last wait

    def load(self, plan: Plan, weights: Weights) -> Model:
        """A plan with its weights on the device, its states zeros.

        Raises PlanMismatch, PlanTooLarge before anything is allocated, WeightsInvalid, and what
        allocations raise; nothing is kept then. Waits for the steps of other models, and raises
        what `wait` raises before anything is done.
        """
        self._meet(plan)
        self.wait()  # a fault of theirs is none of the load
        self._fit(plan, weights)
        storages = Storages(self.device, self.bundle, plan, weights, self._resident)
        return Model(self, plan, storages)

    def wait(self) -> None:
        """Wait for all steps. A fault leaves every model that was stepped without results, and one
        with states in need of a reset: whose it is, the device does not say."""
        try:
            self.device.synchronize()
        except (KernelFault, Poisoned):
            for model in list(self._pending):
                model.spoil()
            raise
        finally:
            self._pending.clear()

    def stepped(self, model: Model) -> None:
        """A model has work on the device."""
        self._pending.add(model)

    def _meet(self, plan: Plan) -> None:
        from ...ir.plan import Plan as Expected

        expect(plan, Expected, self.device.name)
        have = self.device.capabilities
        if plan.device != have.device or not set(plan.targets) & set(have.targets):
            raise PlanMismatch(
                "a plan for another device",
                where=f"plan {plan.name}",
                expected=f"{have.device} with {', '.join(have.targets)}",
                got=f"{plan.device} with {', '.join(plan.targets)}",
                do="plan the model for this device (scons model=NAME target=...)",
            )
        kernels = BundleKernels(self.bundle, have)
        lacking = [m for k, s in plan.kernels() if (m := kernels.lacking(k, s)) is not None]
        if lacking:
            raise PlanMismatch(
                "kernels of the plan do not run here",
                where=f"plan {plan.name} on {self.device.name}",
                expected="all of them",
                got=f"missing {'; '.join(lacking)}",
                do="build the kernels that the plan was made with, for this device",
            )

    def _fit(self, plan: Plan, weights: Weights) -> None:
        shared = sum(
            s.bytes
            for s in plan.storages
            if s.role is Role.WEIGHT and (weights.identity, s.name) in self._resident
        )
        needed = sum(-(-max(s.bytes, 1) // 16) * 16 for s in plan.storages) - shared
        report = self.device.memory()
        available = report.budget - report.live
        if needed > available:
            roles = {role.value: plan.bytes(role) for role in Role}
            raise PlanTooLarge(needed, available, f"plan {plan.name}", roles)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None:
            self.wait()
