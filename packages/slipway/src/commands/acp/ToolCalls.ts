/** Tool calls and approvals of a sandbox as the editor's tool calls. */
import type { ToolCall, ToolCallContent, ToolCallStatus, ToolKind } from "@agentclientprotocol/sdk"
import type { ApprovalRequest, RepoRef, StreamEvent } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import path from "node:path"
import { line } from "../terminal/EventText.ts"
import { fenced, ofPatch, text } from "./PatchContent.ts"

type ToolUpdated = Extract<StreamEvent, { type: "tool.updated" }>["data"]

/** The editor's folder and the repositories of the session; the first one is the folder's. */
export interface Place {
  readonly cwd: string
  readonly repos: ReadonlyArray<RepoRef>
}

/** Locations of one call that are sent. */
const MAX_LOCATIONS = 100

/** The same file in the editor's folder; `null`: the folder is no checkout of its repository. */
const locate = ({ cwd, repos }: Place, inWorkspace: string): string | null => {
  const name = repos[0]?.fullName.split("/")[1] ?? ""
  if (!inWorkspace.toLowerCase().startsWith(`${name.toLowerCase()}/`)) return null
  const found = path.resolve(cwd, inWorkspace.slice(name.length + 1))
  return found.startsWith(`${path.resolve(cwd)}${path.sep}`) ? found : null
}

const located = (place: Place, paths: ReadonlyArray<string> = []) =>
  paths.slice(0, MAX_LOCATIONS).flatMap((one) => locate(place, one) ?? []).map((found) => ({ path: found }))

const KINDS: ReadonlyArray<readonly [RegExp, ToolKind]> = [
  [/^(?:delete|remove|rm)\b/iu, "delete"],
  [/^(?:move|rename|mv)\b/iu, "move"],
  [/^(?:edit|write|create|update|patch|apply|multiedit)\b/iu, "edit"],
  [/^(?:read|view|open|cat|list|ls)\b/iu, "read"],
  [/^(?:grep|glob|search|find)\b/iu, "search"],
  [/^(?:fetch|web|http)/iu, "fetch"]
]

const kindOf = ({ detail, kind, tool }: ToolUpdated): ToolKind => {
  if (kind === "mcp") return "other"
  if (detail?.command !== undefined) return "execute"
  return KINDS.find(([title]) => title.test(tool))?.[1] ?? "other"
}

const STATUS: Readonly<Record<ToolUpdated["status"], ToolCallStatus>> = {
  pending: "pending",
  running: "in_progress",
  completed: "completed",
  error: "failed"
}

/** Which MCP server, which of its tools, with which arguments. */
const called = (of: { readonly server?: string; readonly tool?: string; readonly arguments?: string } = {}): Array<ToolCallContent> => {
  if (of.server === undefined) return []
  const given = of.arguments === undefined ? "" : `\n${fenced(visible(of.arguments), "json")}`
  return [text(`MCP server ${line(of.server)}, tool ${line(of.tool ?? "")}${given}`)]
}

/** A tool call as it is now. */
export const ofTool = (place: Place, data: ToolUpdated, shown: ReadonlyArray<ToolCallContent> = []): ToolCall => {
  const { call_id, detail, error, status, tool } = data
  const content = [...called(detail), ...shown]
  if (detail?.command !== undefined) content.push(text(fenced(visible(detail.command), "sh")))
  if (detail?.output !== undefined && detail.output.trim() !== "") content.push(text(fenced(visible(detail.output))))
  if (error !== undefined) content.push(text(line(error)))
  const locations = located(place, detail?.paths)
  return {
    toolCallId: call_id,
    title: line(tool),
    kind: kindOf(data),
    status: STATUS[status] ?? "in_progress",
    ...(content.length === 0 ? {} : { content }),
    ...(locations.length === 0 ? {} : { locations })
  }
}

/** The comparison of an edit, as far as the request has one. */
export const comparisons = (place: Place, { preview }: ApprovalRequest): Array<ToolCallContent> =>
  preview?.diff === undefined
    ? []
    : ofPatch(visible(preview.diff), (inWorkspace) => locate(place, inWorkspace) ?? path.join(place.cwd, path.resolve("/", inWorkspace)))

const ASKED: Readonly<Record<string, ToolKind>> = { edit: "edit", command: "execute", network: "fetch" }

/** Everything that a person must see before a decision. Only a comparison may be cut, as the service sent it. */
export const ofApproval = (place: Place, request: ApprovalRequest): ToolCall => {
  const { approval_id, kind, paths = [], preview, tool } = request
  const content = [...called(preview), ...comparisons(place, request)]
  if (paths.length > 0) content.push(text(`Files: ${paths.map(line).join(", ")}`))
  if (preview?.cwd !== undefined) content.push(text(`Folder: ${line(preview.cwd)}`))
  if (preview?.command !== undefined) content.push(text(fenced(visible(preview.command), "sh")))
  if (preview?.url !== undefined) content.push(text(line(preview.url)))
  return {
    toolCallId: approval_id,
    title: line(tool),
    kind: ASKED[kind ?? ""] ?? "other",
    status: "pending",
    content,
    locations: located(place, paths)
  }
}
