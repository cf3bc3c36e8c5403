/** Items and approval requests of codex as reports about tool calls. */
import type { ToolReport } from "../TurnEvents.ts"
import type { WorkspacePaths } from "../WorkspacePaths.ts"
import * as Codex from "./Codex.ts"

export const ofItem = (paths: WorkspacePaths, item: Codex.Item, status: ToolReport["status"]): ToolReport => ({
  title: paths.shorten(Codex.titleOf(item)),
  kind: Codex.toolKinds[item.type],
  paths: item.changes == null ? undefined : paths.inside(Codex.pathsOf(item) ?? []),
  command: Codex.commandOf(item),
  cwd: paths.folder(item.cwd),
  removes: Codex.removesOf(item),
  diff: Codex.diffOf(item, (path) => paths.inside([path])[0] ?? path),
  mcp: Codex.mcpOf(item),
  output: item.aggregatedOutput ?? Codex.resultOf(item),
  status
})

export const ofApproval = (paths: WorkspacePaths, about: Codex.ApprovalRequest): ToolReport => ({
  title: Codex.commandOf(about),
  kind: about.networkApprovalContext == null ? undefined : "network",
  command: Codex.commandOf(about),
  cwd: paths.folder(about.cwd),
  url: Codex.urlOf(about)
})
