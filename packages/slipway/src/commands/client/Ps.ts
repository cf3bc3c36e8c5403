/** `slipway ps`: the sandboxes of a server with their states. */
import { stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import { AttentionState } from "@slipway/domain/sandbox/schema/AttentionState"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Option from "effect/Option"
import { json } from "../terminal/Output.ts"
import { DEFAULT_LIMIT, isLimit, listSandboxes, type Options } from "./server/ListSandboxes.ts"
import * as Server from "./server/Server.ts"

const on = (name: string, alias: string, about: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(about), Flag.withAlias(alias), Flag.withDefault(false))

export const ps = Command.make(
  "ps",
  {
    all: on("all", "a", "Include ended sandboxes"),
    archived: on("archived", "A", "Only archived sandboxes, which are hidden otherwise"),
    repo: Flag.String("repo").pipe(Flag.withDescription("Only sandboxes with this repository, as owner/name"), Flag.optional),
    limit: Flag.Int("limit").pipe(
      Flag.withDescription("Number of newest sandboxes, 1 to 1000"),
      Flag.filter(isLimit, () => "--limit is 1 to 1000"),
      Flag.withDefault(DEFAULT_LIMIT)
    ),
    state: Flag.Literals("state", AttentionState.literals).pipe(
      Flag.withDescription("Only sandboxes in this state; asking: they need you"),
      Flag.optional
    ),
    watch: on("watch", "w", "Keep the list up to date, in a terminal"),
    quiet: on("quiet", "q", "Print only ids"),
    json,
    url: Server.url
  } satisfies Record<keyof Options, unknown>,
  ({ repo, state, url, ...options }) =>
    Server.interruptible(
      Server.failing((signal) =>
        listSandboxes({
          ...options,
          repo: Option.getOrUndefined(repo),
          state: Option.getOrUndefined(state),
          url: Option.getOrUndefined(url)
        }, signal)
      )
    )
).pipe(
  Command.withDescription(
    `List live sandboxes, newest first, each with its state: ${Object.values(stateWords).join(", ")}.\n\n${Server.exitCodesText}`
  ),
  Command.withExamples([
    { command: "slipway ps", description: "Those that are live" },
    { command: "slipway ps --watch", description: "The same, kept up to date" },
    { command: "slipway ps --all --repo acme/shop --limit 10", description: "The last ten of a repository" },
    { command: `slipway ps --json | jq -r '.[] | select(.pendingApprovals > 0) | .id'`, description: "Sandboxes that wait for you" }
  ])
)
