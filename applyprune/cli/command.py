"""The click classes of verbs and groups: options under headings, suggestions for mistyped verbs."""

from __future__ import annotations

import click


class SuggestingGroup(click.Group):
    """A group that suggests a verb for a mistyped one, as click does for options."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb of the first argument; raise UsageError for an unknown verb."""
        verb = args[0]
        if not ctx.resilient_parsing and self.get_command(ctx, verb) is None and verb[:1] != "-":
            from applyprune.planning.suggest import did_you_mean

            verbs = self.list_commands(ctx)
            hint = did_you_mean(verb, verbs) or f"The commands are {', '.join(verbs)}."
            ctx.fail(f"No such command {verb!r}. {hint}")
        return super().resolve_command(ctx, args)


HEADINGS: dict[str, tuple[str, ...]] = {
    "Input": (
        "filename",
        "kustomize",
        "selector",
        "only",
        "namespace-override",
        "helm-hooks",
        "config",
    ),
    "Apply": (
        "adopt",
        "on-drift",
        "take-over",
        "force-conflicts",
        "recreate",
        "create-namespace",
        "reapply-all",
        "ignore",
        "no-default-ignore",
        "plan",
        "check",
    ),
    "Prune": ("prune", "propagation", "prune-adopted", "prune-shared"),
    "Prune guards": (
        "max-prune",
        "allow-empty",
        "allow-kind",
        "allow-cascade",
        "orphan",
        "apply-anyway",
        "approve",
    ),
    "Waiting": (
        "wait",
        "wait-for",
        "watch",
        "fail-fast",
        "ready-when",
        "timeout",
        "lock-timeout",
    ),
    "Cluster": ("namespace", "all-namespaces", "to-namespace", "context", "kubeconfig"),
    "Output": ("output", "out", "expires-in", "show-unchanged", "quiet", "verbose"),
}
"""The headings of the help, and the long options under each; the others are under ``Options``."""

_REST = "Options"
_WHOLE = 1000


class Command(click.Command):
    """A command whose help lists its options under HEADINGS, and whose options complete."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; for a completion drop a last option that still needs its value."""
        if ctx.resilient_parsing and args and self._wants_value(ctx, args[-1]):
            # Without its value click would stop parsing, and the set's name would be unknown.
            args = args[:-1]
        return super().parse_args(ctx, args)

    def _wants_value(self, ctx: click.Context, arg: str) -> bool:
        options = (param for param in self.get_params(ctx) if isinstance(param, click.Option))
        return any(arg in option.opts and not option.is_flag for option in options)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading that has options, with ``Options`` first."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections.setdefault(_heading(param), []).append(record)
        for heading in (_REST, *HEADINGS):
            if heading in sections:
                with formatter.section(heading):
                    formatter.write_dl(sections[heading])


class CommandGroup(SuggestingGroup):
    """A group of such commands."""

    command_class = Command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs, each with its whole first sentence; click would shorten it."""
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, verb.get_short_help_str(_WHOLE)) for name, verb in verbs if verb]
            )


def _heading(param: click.Parameter) -> str:
    names = {name.lstrip("-") for name in param.opts}
    return next((heading for heading, options in HEADINGS.items() if names & set(options)), _REST)
