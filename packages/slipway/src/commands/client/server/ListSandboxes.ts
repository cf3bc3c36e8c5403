/** The sandboxes of a server with their states, for `slipway ps`. Loads no Effect, which takes most of the start of a command. */
import type { PullRequestStatus, Sandbox, SandboxQuery, SandboxStatus, Snapshot } from "@slipway/client"
import { attentionStateOf, stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import type { AttentionState } from "@slipway/domain/sandbox/schema/AttentionState"
import { pullStateOf } from "@slipway/domain/source/rules/PullState"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { setTimeout } from "node:timers/promises"
import { ago } from "../../terminal/Age.ts"
import * as EventText from "../../terminal/EventText.ts"
import { ExitCode } from "../../terminal/ExitCodes.ts"
import * as Stdout from "../../terminal/Stdout.ts"
import { beginning, columns, jsonLine } from "../../terminal/Text.ts"
import { connect, Failed, type ServerAccess } from "./ServerAccess.ts"

/** The flags of the command. `undefined`: not given. */
export interface Options {
  readonly all: boolean
  /** Only archived sandboxes, ended ones too. */
  readonly archived: boolean
  readonly repo: string | undefined
  /** From 1 to 1000. */
  readonly limit: number
  readonly state: AttentionState | undefined
  readonly watch: boolean
  readonly quiet: boolean
  readonly json: boolean
  readonly url: string | undefined
}

const LIVE: ReadonlyArray<SandboxStatus> = ["queued", "creating", "running", "terminating"]
/** The state of each of these sandboxes costs a request for its snapshot, and at rest one for each pull request. */
const MAX_ASKED = 30
const PAGE = 100

/** Number of sandboxes without the flag. */
export const DEFAULT_LIMIT = 100
export const isLimit = (limit: number): boolean => limit >= 1 && limit <= 1000

/** Those of a page that are archived, or that are not. Servers of earlier versions have no archive. */
const chosen = async ({ call, client }: ServerAccess, page: ReadonlyArray<Sandbox>, isArchived: boolean) => {
  if (page.length === 0) return page
  try {
    const archived = new Set(await call((signal) => client.archivedSandboxes(page.map(({ id }) => id), { signal })))
    return page.filter(({ id }) => archived.has(id) === isArchived)
  } catch (error) {
    if (error instanceof Failed && error.failure.exitCode === ExitCode.notFound) return isArchived ? [] : page
    throw error
  }
}

const pages = async (server: ServerAccess, query: SandboxQuery, { archived, limit }: Options) => {
  const { call, client } = server
  const found: Array<Sandbox> = []
  let after: string | null | undefined
  while (after !== null && found.length < limit) {
    const page: SandboxQuery = { ...query, limit: PAGE, ...(after === undefined ? {} : { after }) }
    const { data, nextCursor } = await call((signal) => client.listSandboxes(page, { signal }))
    found.push(...await chosen(server, data, archived))
    after = nextCursor
  }
  return found.slice(0, limit)
}

/** Requests that are sent at once. */
const CONCURRENCY = 4

/** The results in the order of the items. */
const forEach = async <A, B>(items: ReadonlyArray<A>, work: (item: A) => Promise<B>): Promise<ReadonlyArray<B>> => {
  const results: Array<B> = []
  const left = items.entries()
  const worker = async () => {
    for (const [i, item] of left) results[i] = await work(item)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  return results
}

/** Parts of a sandbox's state that a list leaves out. */
export interface Details extends Pick<Snapshot, "pending_approvals" | "turn">, Partial<Pick<Snapshot, "pending_questions">> {
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
  const counted = (count: number, what: string) => count === 0 ? [] : [count === 1 ? `1 ${what}` : `${count} ${what}s`]
  const asks = [...counted(details?.pending_approvals.length ?? 0, "approval"),
    ...counted(details?.pending_questions?.length ?? 0, "question")]
  const why = state === "asking" ? asks.join(", ") : sandbox.error
  // A newer server may have other statuses.
  const word = stateWords[state] ?? sandbox.status
  return why === null ? word : `${word}: ${why}`
}

/** Asks only for the parts that decide the state of this sandbox. */
const detailsOf = async ({ call, client }: ServerAccess, { id, repos, status, turn: { active } }: Sandbox): Promise<Details> => {
  const { pending_approvals, pending_questions = [], turn } = status === "running"
    ? await call((signal) => client.snapshot(id, { signal }))
    : NO_DETAILS
  const mayHavePulls = !active && (status === "running" || status === "succeeded")
  const pulls: Array<PullRequestStatus> = []
  for (const { fullName } of mayHavePulls ? repos : []) {
    try {
      pulls.push(await call((signal) => client.getPullRequest(id, { repo: fullName }, { signal })))
    } catch (error) {
      // A source host that does not answer must not keep a person from the list.
      if (!(error instanceof Failed && error.failure.exitCode === ExitCode.unreachable)) throw error
    }
  }
  return { pending_approvals, pending_questions, turn, pulls }
}

interface Row {
  readonly sandbox: Sandbox
  readonly details: Details | undefined
}

/** The listed sandboxes, newest first. */
const listed = async (server: ServerAccess, options: Options) => {
  const { all, archived, limit, repo } = options
  const query: SandboxQuery = repo === undefined ? {} : { repo }
  if (all || archived) return await pages(server, query, options)
  const live = await forEach(LIVE, (status) => pages(server, { ...query, status }, options))
  return live.flat().sort((a, b) => b.createdAt < a.createdAt ? -1 : 1).slice(0, limit)
}

const look = async (server: ServerAccess, options: Options): Promise<ReadonlyArray<Row>> => {
  const found = await listed(server, options)
  const asked = found.filter(({ status }) => status === "running" || status === "succeeded").slice(0, MAX_ASKED)
  const details = new Map(await forEach(asked, async (sandbox) => [sandbox.id, await detailsOf(server, sandbox)] as const))
  return found.map((sandbox): Row => ({ sandbox, details: details.get(sandbox.id) }))
    .filter(({ details, sandbox }) => options.state === undefined || codeOf(sandbox, details) === options.state)
}

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
const watched = async (server: ServerAccess, options: Options, signal: AbortSignal | undefined): Promise<never> => {
  for (;;) {
    const rows = await look(server, options)
    await Stdout.write(
      `\u001b[2J\u001b[H${Stdout.paint("dim", "slipway ps --watch · Ctrl-C ends it")}\n\n${visible(text(rows, options.all))}\n`
    )
    await setTimeout(1000 * Math.max(WATCH_SECONDS, ROW_SECONDS * rows.length), undefined, { signal })
  }
}

/** Prints the list. Rejects with {@link Failed}. */
export const listSandboxes = async (options: Options, signal?: AbortSignal): Promise<void> => {
  const { all, json, quiet, state, url, watch } = options
  if (watch && (json || quiet || !process.stdout.isTTY)) {
    const detail = "--watch needs a terminal, and does not go with --json or --quiet."
    throw new Failed({ detail, exitCode: ExitCode.unclear })
  }
  const server = await connect(url)
  if (watch) return await watched(server, options, signal)
  const ids = (found: ReadonlyArray<Sandbox>) => Stdout.write(found.map(({ id }) => `${id}\n`).join(""))
  if (quiet && !json && state === undefined) return await ids(await listed(server, options))
  const rows = await look(server, options)
  if (quiet && !json) return await ids(rows.map(({ sandbox }) => sandbox))
  const shown = rows.map(({ details, sandbox }) => ({
    ...sandbox,
    pendingApprovals: details?.pending_approvals.length ?? null,
    pendingQuestions: details === undefined ? null : details.pending_questions?.length ?? 0
  }))
  await Stdout.write(`${json ? jsonLine(shown) : visible(text(rows, all))}\n`)
}
