/** `slipway ps`: the sandboxes of a server with their states. */
import type { PullRequestStatus, Sandbox, SandboxQuery, SandboxStatus, Snapshot } from "@slipway/client"
import { attentionStateOf, stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import { AttentionState } from "@slipway/domain/sandbox/schema/AttentionState"
import { pullStateOf } from "@slipway/domain/source/schema/PullRequest"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ago } from "../terminal/Age.ts"
import * as EventText from "../terminal/EventText.ts"
import { beginning, columns, json, print } from "../terminal/Output.ts"
import * as Terminal from "../terminal/Terminal.ts"
import * as Server from "./Server.ts"

const LIVE: ReadonlyArray<SandboxStatus> = ["queued", "creating", "running", "terminating"]
/** The state of each of these sandboxes costs a request for its snapshot, and at rest one for each pull request. */
const MAX_ASKED = 30
const PAGE = 100

const pages = Effect.fnUntraced(function*({ call, client }: Server.Server, query: SandboxQuery, limit: number) {
  const found: Array<Sandbox> = []
  let after: string | null | undefined
  while (after !== null && found.length < limit) {
    const page: SandboxQuery = { ...query, limit: Math.min(PAGE, limit - found.length), ...(after === undefined ? {} : { after }) }
    const { data, nextCursor } = yield* call((signal) => client.listSandboxes(page, { signal }))
    found.push(...data)
    after = nextCursor
  }
  return found
})

/** Parts of a sandbox's state that a list leaves out. */
export interface Details extends Pick<Snapshot, "pending_approvals" | "turn"> {
  readonly pulls: ReadonlyArray<Pick<PullRequestStatus, "actionState" | "pullRequest">>
}

const NO_DETAILS: Details = { pending_approvals: [], turn: null, pulls: [] }

type Facts = Pick<Sandbox, "error" | "status" | "turn">

/** `null`: a sandbox at rest has details that decide its state, and they were not asked for. */
const codeOf = ({ status, turn: { active } }: Facts, details?: Details): AttentionState | null => {
  if (details === undefined && status === "running" && !active) return null
  const { pending_approvals: approvals, pulls, turn } = details ?? NO_DETAILS
  return attentionStateOf({
    status,
    approvals,
    publications: pulls.map(({ actionState, pullRequest }) => ({ actionState, state: pullRequest?.state ?? null })),
    restoring: null,
    turn: turn ?? (active ? { state: "running" } : null)
  })
}

/** The state in the word of the pages, with its reason. */
export const stateOf = (sandbox: Facts, details?: Details): string => {
  const state = codeOf(sandbox, details)
  if (state === null) return "At rest"
  const count = details?.pending_approvals.length ?? 0
  const why = state === "asking" ? (count === 1 ? "1 approval" : `${count} approvals`) : sandbox.error
  // A newer server may have other statuses.
  const word = stateWords[state] ?? sandbox.status
  return why === null ? word : `${word}: ${why}`
}

/** Asks only for the parts that decide the state of this sandbox. */
const detailsOf = Effect.fnUntraced(function*({ call, client }: Server.Server, { id, repos, status, turn: { active } }: Sandbox) {
  const { pending_approvals, turn } = status === "running"
    ? yield* call((signal) => client.snapshot(id, { signal }))
    : NO_DETAILS
  const mayHavePulls = !active && (status === "running" || status === "succeeded")
  const pulls = yield* Effect.forEach(
    mayHavePulls ? repos : [],
    ({ fullName }) =>
      call((signal) => client.getPullRequest(id, { repo: fullName }, { signal })).pipe(
        // A source host that does not answer must not keep a person from the list.
        Effect.catchIf(({ exitCode }) => exitCode === Server.ExitCode.unreachable, () => Effect.succeed(null))
      )
  )
  return { pending_approvals, turn, pulls: pulls.filter((pull) => pull !== null) } satisfies Details
})

interface Row {
  readonly sandbox: Sandbox
  readonly details: Details | undefined
}

/** The listed sandboxes, newest first. */
const listed = Effect.fnUntraced(function*(server: Server.Server, all: boolean, query: SandboxQuery, limit: number) {
  if (all) return yield* pages(server, query, limit)
  const live = yield* Effect.forEach(LIVE, (status) => pages(server, { ...query, status }, limit), { concurrency: 4 })
  return live.flat().sort((a, b) => b.createdAt < a.createdAt ? -1 : 1).slice(0, limit)
})

const detailed = Effect.fnUntraced(function*(server: Server.Server, found: ReadonlyArray<Sandbox>) {
  const asked = found.filter(({ status }) => status === "running" || status === "succeeded").slice(0, MAX_ASKED)
  const details = new Map(
    yield* Effect.forEach(asked, (sandbox) => Effect.map(detailsOf(server, sandbox), (details) => [sandbox.id, details] as const), {
      concurrency: 4
    })
  )
  return found.map((sandbox): Row => ({ sandbox, details: details.get(sandbox.id) }))
})

const table = (rows: ReadonlyArray<Row>, now: number): string =>
  columns([
    ["ID", "STATE", "REPOSITORY", "LINES", "PULL REQUEST", "COST", "CREATED", "TITLE"],
    ...rows.map(({ details, sandbox }) => {
      const pulls = (details?.pulls ?? []).flatMap(({ pullRequest }) => pullRequest === null ? [] : [pullRequest])
      return [
        sandbox.id,
        stateOf(sandbox, details),
        sandbox.repos.map(({ fullName, ref }) => ref === undefined ? fullName : `${fullName}@${ref}`).join(" "),
        pulls.map(({ additions, deletions }) => `+${additions} -${deletions}`).join(" "),
        pulls.map((pull) => `#${pull.number} ${pullStateOf(pull)}`).join(" "),
        sandbox.usage.costMicroUsd === 0 ? "" : EventText.usd(sandbox.usage.costMicroUsd),
        ago(sandbox.createdAt, now),
        beginning(sandbox.title)
      ]
    })
  ])

const text = (rows: ReadonlyArray<Row>, all: boolean): string =>
  rows.length === 0
    ? `No sandboxes${all ? "" : " are live. Ended ones: slipway ps --all"}. Start one: slipway run owner/name "prompt"`
    : table(rows, Date.now())

/** Seconds between two looks, and for each row, so that the requests stay below the rate limit of a key. */
const WATCH_SECONDS = 5
const ROW_SECONDS = 1.5

/** Draws the list again and again, until it is interrupted. */
const watched = <E, R>(look: Effect.Effect<ReadonlyArray<Row>, E, R>, all: boolean) =>
  Effect.forever(
    Effect.gen(function*() {
      const rows = yield* look
      yield* Terminal.write(
        `\u001b[2J\u001b[H${Terminal.paint("dim", "slipway ps --watch · Ctrl-C ends it")}\n\n${visible(text(rows, all))}\n`
      )
      yield* Effect.sleep(`${Math.max(WATCH_SECONDS, ROW_SECONDS * rows.length)} seconds`)
    })
  )

const on = (name: string, alias: string, about: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(about), Flag.withAlias(alias), Flag.withDefault(false))

export const ps = Command.make("ps", {
  all: on("all", "a", "Include ended sandboxes"),
  repo: Flag.String("repo").pipe(Flag.withDescription("Only sandboxes with this repository, as owner/name"), Flag.optional),
  limit: Flag.Int("limit").pipe(
    Flag.withDescription("Number of newest sandboxes, 1 to 1000"),
    Flag.filter((limit) => limit >= 1 && limit <= 1000, () => "--limit is 1 to 1000"),
    Flag.withDefault(100)
  ),
  state: Flag.Literals("state", AttentionState.literals).pipe(
    Flag.withDescription("Only sandboxes in this state; asking: they need you"),
    Flag.optional
  ),
  watch: on("watch", "w", "Keep the list up to date, in a terminal"),
  quiet: on("quiet", "q", "Print only ids"),
  json,
  url: Server.url
}, ({ all, json, limit, quiet, repo, state, url, watch }) =>
  Server.interruptible(Effect.gen(function*() {
    if (watch && (json || quiet || !process.stdout.isTTY)) {
      const detail = "--watch needs a terminal, and does not go with --json or --quiet."
      return yield* new Server.CommandFailed({ detail, exitCode: Server.ExitCode.unclear })
    }
    const server = yield* Server.connect(url)
    const list = listed(server, all, Option.isNone(repo) ? {} : { repo: repo.value }, limit)
    const isShown = ({ details, sandbox }: Row) => Option.isNone(state) || codeOf(sandbox, details) === state.value
    const look = Effect.map(Effect.flatMap(list, (found) => detailed(server, found)), (rows) => rows.filter(isShown))
    if (watch) return yield* watched(look, all)
    const ids = (found: ReadonlyArray<Sandbox>) => Terminal.write(found.map(({ id }) => `${id}\n`).join(""))
    if (quiet && !json && Option.isNone(state)) return yield* ids(yield* list)
    const rows = yield* look
    if (quiet && !json) return yield* ids(rows.map(({ sandbox }) => sandbox))
    const shown = rows.map(({ details, sandbox }) => ({ ...sandbox, pendingApprovals: details?.pending_approvals.length ?? null }))
    yield* print(json, shown, () => text(rows, all))
  }))).pipe(
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
