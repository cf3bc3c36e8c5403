/**
 * The part of codex's app-server protocol, version 2, that Slipway reads; `codex app-server generate-ts` prints all of
 * it. Looser wherever a stricter reading would break on something new. Field names and values are the protocol's.
 */
import { Schema } from "effect"
import type { ToolKind } from "@slipway/domain/sandbox/AgentRuntime"
import type { ToolStatus } from "../TurnEvents.ts"

const nullish = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

export const ThreadOpened = Schema.Struct({ thread: Schema.Struct({ id: Schema.String }) })
export const TurnStarted = Schema.Struct({ turn: Schema.Struct({ id: Schema.String }) })

export const TurnCompleted = Schema.Struct({
  threadId: Schema.String,
  turn: Schema.Struct({
    id: Schema.String,
    status: Schema.String,
    error: nullish(Schema.Struct({ message: Schema.String }))
  })
})

const Action = Schema.Struct({ command: Schema.String })

/** A message, a tool call or a note of something else, told by its `type`. */
export const Item = Schema.Struct({
  type: Schema.String,
  id: Schema.String,
  status: nullish(Schema.String),
  /** Of a command. */
  command: nullish(Schema.String),
  commandActions: nullish(Schema.Array(Action)),
  /** Of a change of files. */
  changes: nullish(Schema.Array(Schema.Struct({ path: Schema.String, kind: nullish(Schema.Struct({ type: Schema.String })) }))),
  /** Of a call to another tool. */
  server: nullish(Schema.String),
  tool: nullish(Schema.String),
  query: nullish(Schema.String)
})
export type Item = typeof Item.Type

/** `item/started`, `item/completed`. */
export const ItemNews = Schema.Struct({ threadId: Schema.String, item: Item })

/** `item/agentMessage/delta`, `item/reasoning/summaryTextDelta`, `item/reasoning/textDelta`. */
export const Delta = Schema.Struct({ threadId: Schema.String, itemId: Schema.String, delta: Schema.String })

/** `item/commandExecution/requestApproval`, `item/fileChange/requestApproval`. */
export const ApprovalRequest = Schema.Struct({
  threadId: Schema.String,
  itemId: Schema.String,
  command: nullish(Schema.String),
  commandActions: nullish(Schema.Array(Action)),
  networkApprovalContext: nullish(Schema.Unknown)
})
export type ApprovalRequest = typeof ApprovalRequest.Type

/** Any notification of a thread. */
export const OfThread = Schema.Struct({ threadId: Schema.String })

export const RequestResolved = Schema.Struct({ requestId: Schema.Union([Schema.String, Schema.Finite]) })

/** What is a tool call, and of which kind. Other items are no concern of the log. */
export const toolKinds: Readonly<Record<string, ToolKind>> = {
  commandExecution: "command",
  fileChange: "edit",
  webSearch: "network",
  mcpToolCall: "other",
  dynamicToolCall: "other",
  collabAgentToolCall: "other",
  imageView: "other",
  imageGeneration: "other"
}

/** Ends of a tool call; what has begun may still have to be asked about. */
export const toolEnds: Readonly<Record<string, ToolStatus>> = {
  completed: "completed",
  failed: "error",
  declined: "error"
}

/** `bash -lc '…'` as the one command in it, where codex tells. */
export const commandOf = ({ command, commandActions }: Pick<Item, "command" | "commandActions">): string | undefined =>
  commandActions?.length === 1 ? commandActions[0]?.command : (command ?? undefined)

const verbs: Readonly<Record<string, string>> = { add: "Write", delete: "Delete" }

/** What a person reads. */
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
