/**
 * The part of codex's app-server protocol, version 2, that Slipway reads; `codex app-server generate-ts` prints all of it. Fields are
 * optional where a strict schema would reject additions. Names and values are the protocol's.
 */
import { type McpCall, type PlanEntry, type ToolKind, unifiedDiff } from "@slipway/domain/sandbox/rules/ToolCall"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import { Option, Schema } from "effect"
import { NativeId } from "../stdio/JsonLines.ts"
import type { ToolStatus } from "../TurnEvents.ts"

const nullish = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

export const ThreadOpened = Schema.Struct({ thread: Schema.Struct({ id: Schema.String }) })
export const TurnStarted = Schema.Struct({ turn: Schema.Struct({ id: Schema.String }) })

/** `turn/started`, of any thread. */
export const TurnBegan = Schema.Struct({ threadId: NativeId, turn: Schema.Struct({ id: NativeId }) })

/** The answer to `thread/read`: whether the thread has a running turn. */
export const ThreadRead = Schema.Struct({ thread: Schema.Struct({ status: Schema.Struct({ type: Schema.String }) }) })

export const TurnCompleted = Schema.Struct({
  threadId: Schema.String,
  turn: Schema.Struct({
    id: Schema.String,
    status: Schema.String,
    error: nullish(Schema.Struct({ message: Schema.String }))
  })
})

/** The content of a new or deleted file, or the hunks of another change. */
const Change = Schema.Struct({
  path: Schema.String,
  kind: nullish(Schema.Struct({ type: Schema.String, move_path: nullish(Schema.String) })),
  diff: nullish(Schema.String)
})

/** A message, a tool call or another item, by its `type`. */
export const Item = Schema.Struct({
  type: Schema.String,
  id: NativeId,
  status: nullish(Schema.String),
  /** Our id of a steering message. */
  clientId: nullish(NativeId),
  /** The command of a command item. */
  command: nullish(Schema.String),
  cwd: nullish(Schema.String),
  aggregatedOutput: nullish(Schema.String),
  /** The changes of a file change. */
  changes: nullish(Schema.Array(Change)),
  /** The server of a call to another tool. */
  server: nullish(Schema.String),
  tool: nullish(Schema.String),
  arguments: Schema.optionalKey(Schema.Unknown),
  /** The result of a tool of an MCP server. */
  result: Schema.optionalKey(Schema.Unknown),
  query: nullish(Schema.String),
  /** The threads of sub-agents in a call about them, and the prompt for them. */
  receiverThreadIds: nullish(Schema.Array(NativeId)),
  prompt: nullish(Schema.String)
})
export type Item = typeof Item.Type

/** `item/started`, `item/completed`. */
export const ItemNews = Schema.Struct({ threadId: Schema.String, item: Item })

/** `item/agentMessage/delta`, `item/reasoning/summaryTextDelta`, `item/reasoning/textDelta`. */
export const Delta = Schema.Struct({ threadId: Schema.String, itemId: NativeId, delta: Schema.String })

/** `item/commandExecution/requestApproval`, `item/fileChange/requestApproval`. */
export const ApprovalRequest = Schema.Struct({
  threadId: Schema.String,
  itemId: NativeId,
  command: nullish(Schema.String),
  cwd: nullish(Schema.String),
  /** For a change of files: asks for the whole folder, for the rest of the session. */
  grantRoot: nullish(Schema.String),
  networkApprovalContext: nullish(Schema.Struct({ host: nullish(Schema.String), protocol: nullish(Schema.String) }))
})
export type ApprovalRequest = typeof ApprovalRequest.Type

/** `item/tool/requestUserInput`. */
export const UserInputRequest = Schema.Struct({
  threadId: Schema.String,
  questions: Schema.Array(Schema.Struct({
    id: Schema.String,
    header: nullish(Schema.String),
    question: Schema.String,
    /** Whether a text may answer it. */
    isOther: nullish(Schema.Boolean),
    /** The answer must be shown nowhere. */
    isSecret: nullish(Schema.Boolean),
    options: nullish(Schema.Array(Schema.Struct({ label: Schema.String, description: nullish(Schema.String) })))
  }))
})
export type UserInputRequest = typeof UserInputRequest.Type

/** Any notification of a thread. */
export const OfThread = Schema.Struct({ threadId: NativeId })

/** `turn/plan/updated`: the whole plan, which replaces the one before. */
export const PlanUpdated = Schema.Struct({ plan: Schema.Array(Schema.Struct({ step: Schema.String, status: nullish(Schema.String) })) })

const planStatuses: Readonly<Record<string, PlanEntry["status"]>> = { inProgress: "in_progress", completed: "completed" }

/** The steps of a plan. */
export const planOf = ({ plan }: typeof PlanUpdated.Type): ReadonlyArray<PlanEntry> =>
  plan.map(({ status, step }) => ({ text: step, status: planStatuses[status ?? ""] ?? "pending" }))

export const RequestResolved = Schema.Struct({ requestId: Schema.Union([Schema.String, Schema.Finite]) })

/** The kinds of items that are tool calls. Other items are not logged. */
export const toolKinds: Readonly<Record<string, ToolKind>> = {
  commandExecution: "command",
  fileChange: "edit",
  webSearch: "network",
  mcpToolCall: "mcp",
  dynamicToolCall: "other",
  collabAgentToolCall: "other",
  imageView: "other",
  imageGeneration: "other"
}

/** Calls that give a sub-agent a task: its turn begins soon after the call or before the call's end. */
export const setsToWork: ReadonlySet<string> = new Set(["spawnAgent", "sendInput", "sendMessage", "followupTask"])

/** The ends of a tool call. A call that has begun may still need an approval. */
export const toolEnds: Readonly<Record<string, ToolStatus>> = {
  completed: "completed",
  failed: "error",
  declined: "error"
}

/**
 * The system's shells with their full paths. Codex runs each command with one of them. A shell in another folder, or one from the
 * `PATH`, may be the repository's own program.
 */
const SHELLS = ["/bin", "/usr/bin"].flatMap((folder) => ["sh", "bash", "zsh"].map((name) => `${folder}/${name}`))

/** The command; for `/bin/bash -lc '…'` the inner command, if it needs no unquoting. */
export const commandOf = ({ command }: Pick<Item, "command">): string | undefined => {
  const shell = SHELLS.find((shell) => command?.startsWith(`${shell} -lc '`) === true)
  if (command == null || shell === undefined) return command ?? undefined
  const within = command.slice(`${shell} -lc '`.length, -1)
  return within !== "" && command.endsWith("'") && !within.includes("'") ? within : command
}

/** A call of a tool of an MCP server. */
export const mcpOf = ({ arguments: given, server, tool, type }: Item): McpCall | undefined =>
  type === "mcpToolCall" && server != null && tool != null
    ? { server, tool, arguments: JSON.stringify(given ?? {}, null, 2) }
    : undefined

const decodeResult = Schema.decodeUnknownOption(Schema.Struct({ content: Schema.Array(Schema.Unknown) }))
const decodeText = Schema.decodeUnknownOption(Schema.Struct({ text: Schema.String }))

/** The texts of a result of such a tool. */
export const resultOf = ({ result }: Item): string | undefined =>
  Option.getOrUndefined(Option.map(
    decodeResult(result),
    ({ content }) => content.flatMap((block) => Option.getOrUndefined(decodeText(block))?.text ?? []).join("\n")
  ))

/** All changed files, including the new name of a moved file. */
export const pathsOf = ({ changes }: Item): ReadonlyArray<string> | undefined =>
  changes?.flatMap(({ kind, path }) => kind?.move_path == null ? [path] : [path, kind.move_path])

/** Whether it deletes or moves a file. `undefined`: unknown. */
export const removesOf = ({ changes }: Item): boolean | undefined =>
  changes == null || changes.length === 0
    ? undefined
    : changes.some(({ kind }) => !(kind?.type === "add" || kind?.type === "update" && kind.move_path == null))

/** The diff of all files; `undefined`: unknown. */
export const diffOf = ({ changes }: Item, nameOf: (path: string) => string): string | undefined =>
  changes == null || changes.length === 0 || changes.some(({ diff }) => diff == null)
    ? undefined
    : changes.map(({ diff, kind, path }) => {
      const name = nameOf(path)
      if (kind?.type === "add") return unifiedDiff(name, null, diff ?? "")
      if (kind?.type === "delete") return unifiedDiff(name, diff ?? "", null)
      const hunks = isProtected(name) ? (diff ?? "").replaceAll(/^[ -].*\n?/gmu, "") : diff ?? ""
      return `--- ${name}\n+++ ${kind?.move_path == null ? name : nameOf(kind.move_path)}\n${hunks.replace(/\n?$/u, "\n")}`
    }).join("")

/** The address of a network request. */
export const urlOf = ({ networkApprovalContext: about }: ApprovalRequest): string | undefined =>
  about?.host == null ? undefined : `${about.protocol ?? "https"}://${about.host}`

const verbs: Readonly<Record<string, string>> = { add: "Write", delete: "Delete" }

/** The title for people. */
export const titleOf = (item: Item): string => {
  const changed = item.changes ?? []
  const [first] = changed
  if (first !== undefined) {
    const others = changed.length === 1 ? "" : ` and ${changed.length - 1} more`
    return `${verbs[first.kind?.type ?? ""] ?? "Edit"} ${first.path}${others}`
  }
  const named = [item.server, item.tool].filter((name) => typeof name === "string" && name !== "").join(": ")
  return commandOf(item) ?? (named === "" ? (item.query ?? item.type) : named)
}
