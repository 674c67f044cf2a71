"""Groups of verbs that say what a mistyped verb may have meant, as click does for options."""

from __future__ import annotations

import click


class SuggestingGroup(click.Group):
    """A group that knows its verbs."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb that the arguments begin with; raises UsageError for one there is not."""
        verb = args[0]
        if not ctx.resilient_parsing and self.get_command(ctx, verb) is None and verb[:1] != "-":
            from applyprune.planning.suggest import did_you_mean

            verbs = self.list_commands(ctx)
            asked = did_you_mean(verb, verbs) or f"The verbs are {', '.join(verbs)}."
            ctx.fail(f"No such command {verb!r}. {asked}")
        return super().resolve_command(ctx, args)
