/**
 * The visible form of a tool call: a `Preview` of its effect before it is allowed, and a `Detail` of its progress with each update; and of
 * an agent's plan (docs/decisions/5). All texts are untrusted: they are limited, and invisible characters are shown.
 */
import * as Result from "effect/Result"
import { isProtected } from "../../source/rules/FileRules.ts"
import { visible } from "../../text/EscapeInvisible.ts"
import { inOneLine, linesOf } from "../../text/Lines.ts"
import { cut, endOf, utf8Length } from "../../text/Utf8.ts"
import type { PlanEntry } from "../schema/Plan.ts"
import type { Detail, Preview, ToolKind } from "../schema/ToolCall.ts"

export type { PlanEntry, PlanStatus } from "../schema/Plan.ts"
export type { Detail, Preview, ToolKind } from "../schema/ToolCall.ts"

/** UTF-8 bytes of a preview (docs/decisions/5). */
export const PREVIEW_BYTES = 64 * 1024
/** UTF-8 bytes of a call's output (docs/decisions/5). */
export const OUTPUT_BYTES = 8 * 1024
const MAX_PATHS = 100
/** Characters of one path, as in the interface (docs/interface.md 8). */
const MAX_PATH_CHARACTERS = 1000

/** A call of a tool of an MCP server. */
export interface McpCall {
  readonly server: string
  readonly tool: string
  readonly arguments: string
}

/** A tool call with the texts of the agent, which its driver bounds. */
export interface ToolCall {
  readonly kind?: ToolKind | undefined
  /** Relative to the workspace. */
  readonly paths?: ReadonlyArray<string> | undefined
  readonly command?: string | undefined
  /** The working directory of the command, relative to the workspace. Absent: the workspace, or unknown. */
  readonly cwd?: string | undefined
  /** Whether an edit deletes or moves a file. Absent: unknown. */
  readonly removes?: boolean | undefined
  readonly diff?: string | undefined
  readonly url?: string | undefined
  /** A tool of an MCP server, with its arguments as JSON. */
  readonly mcp?: McpCall | undefined
  readonly output?: string | undefined
}

const shown = (text: string): string => visible(text.toWellFormed())

/** The end of a diff that was cut. */
export const DIFF_CUT = "\n… the rest of the changes is not shown: there are too many of them\n"
/** The reason for denying a call that cannot be shown completely. */
export const TOO_LARGE = "It is larger than 64 KiB, so it cannot be shown whole."
const COMMAND_CUT = "\n… the rest is not shown: it is too long\n"
const OUTPUT_CUT = "… what came before is not shown\n"

/** The beginning of the text within `bytes`, with `mark` at the end if something is left out. */
const beginning = (text: string, bytes: number, mark: string): string => cut(shown(text), bytes, mark)

/** Like {@link beginning}, from the end. */
const ending = (text: string, bytes: number, mark: string): string => {
  const whole = shown(text)
  return utf8Length(whole) > bytes ? `${mark}${endOf(whole, bytes - utf8Length(mark))}` : whole
}

/** The first paths in visible form, as far as the limit allows. */
export const shownPaths = (paths: ReadonlyArray<string>): ReadonlyArray<string> =>
  paths.slice(0, MAX_PATHS).map((path) => {
    const whole = shown(path.slice(0, MAX_PATH_CHARACTERS + 1))
    return whole.length <= MAX_PATH_CHARACTERS ? whole : `${whole.slice(0, MAX_PATH_CHARACTERS - 1).toWellFormed()}…`
  })

/** Characters of a title, before it is cut. */
const MAX_TITLE_CHARACTERS = 200

/** A title on one line. Line feeds become `⏎`, so that later text does not look like part of the line before. */
export const shownTitle = (title: string): string => {
  const line = shown(inOneLine(title).replaceAll(/[ \t]+/gu, " "))
  return line.length <= MAX_TITLE_CHARACTERS ? line : `${line.slice(0, MAX_TITLE_CHARACTERS).toWellFormed()}…`
}

/** Whether {@link shownPaths} shows all paths completely. */
const arePathsShown = (paths: ReadonlyArray<string>) =>
  paths.length <= MAX_PATHS && paths.every((path) => path.length <= MAX_PATH_CHARACTERS && shown(path).length <= MAX_PATH_CHARACTERS)

/**
 * The preview for a person's decision. Fails with a sentence if the person could not see the whole effect: the call is too large to
 * show, or the agent does not describe it. Such a call cannot be approved.
 */
export const preview = ({ command, cwd, diff, kind, mcp, paths = [], url }: ToolCall): Result.Result<Preview, string> => {
  if (kind === "command" && (command === undefined || command.trim() === "")) {
    return Result.fail("The agent does not say what it would run.")
  }
  if (kind === "edit" && diff === undefined && paths.length === 0) return Result.fail("The agent does not say what it would change.")
  if (kind === "network" && (url ?? command ?? "").trim() === "") return Result.fail("The agent does not say what it would ask for.")
  if (!arePathsShown(paths)) return Result.fail("It names more files, or longer names, than can be shown.")
  const whole = {
    ...(command === undefined ? {} : { command: shown(command) }),
    ...(command === undefined || cwd === undefined ? {} : { cwd: shown(cwd) }),
    ...(url === undefined ? {} : { url: shown(url) }),
    ...(mcp === undefined ? {} : { server: shown(mcp.server), tool: shown(mcp.tool), arguments: shown(mcp.arguments) })
  }
  const all = Object.values(whole).join("")
  if (utf8Length(all) > PREVIEW_BYTES) return Result.fail(TOO_LARGE)
  if (diff === undefined) return Result.succeed(whole)
  const room = PREVIEW_BYTES - utf8Length(all)
  if (room < utf8Length(DIFF_CUT)) return Result.fail(TOO_LARGE)
  return Result.succeed({ ...whole, diff: beginning(diff, room, DIFF_CUT) })
}

/** The progress of a call for its updates; `undefined`: nothing is known. */
export const detail = ({ command, mcp, output, paths }: ToolCall): Detail | undefined =>
  command === undefined && mcp === undefined && output === undefined && (paths === undefined || paths.length === 0) ? undefined : {
    ...(mcp === undefined ? {} : {
      server: shown(mcp.server),
      tool: shown(mcp.tool),
      arguments: beginning(mcp.arguments, PREVIEW_BYTES, COMMAND_CUT)
    }),
    ...(command === undefined ? {} : { command: beginning(command, PREVIEW_BYTES, COMMAND_CUT) }),
    ...(paths === undefined || paths.length === 0 ? {} : { paths: shownPaths(paths) }),
    ...(output === undefined ? {} : { output: ending(output, OUTPUT_BYTES, OUTPUT_CUT) })
  }

/** Characters of a file that are compared. A change after them is only mentioned. */
const MAX_COMPARED = 512 * 1024
/** Unchanged lines around a change, as in `diff -u`. */
const CONTEXT = 3

/** Limits the lines to the size of a preview. */
const prefixed = (prefix: string, lines: ReadonlyArray<string>): string => {
  let text = ""
  for (const line of lines) {
    if (text.length > PREVIEW_BYTES) break
    text += line.endsWith("\n") ? `${prefix}${line}` : `${prefix}${line}\n\\ No newline at end of file\n`
  }
  return text
}

/**
 * A change of a file's content in the form of `diff -u`, with one hunk between the common beginning and end. `null`: the file does not
 * exist. The time is linear in the texts. The old content of a protected file is not shown, only the new one.
 */
export const unifiedDiff = (path: string, before: string | null, after: string | null): string => {
  const texts = [isProtected(path) ? "" : before ?? "", after ?? ""] as const
  if (texts.some((text) => text.length > MAX_COMPARED)) {
    const first = (text: string | null) => text?.slice(0, MAX_COMPARED) ?? null
    return unifiedDiff(path, first(before), first(after)) + DIFF_CUT
  }
  const [old, now] = [linesOf(texts[0]), linesOf(texts[1])]
  const shorter = Math.min(old.length, now.length)
  let start = 0
  while (start < shorter && old[start] === now[start]) start++
  let end = 0
  while (end < shorter - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end++
  const header = `--- ${before === null ? "/dev/null" : path}\n+++ ${after === null ? "/dev/null" : path}\n`
  if (start === old.length && start === now.length) return header
  const lead = old.slice(Math.max(0, start - CONTEXT), start)
  const follow = old.slice(old.length - end, old.length - end + CONTEXT)
  const side = (lines: ReadonlyArray<string>) => {
    const count = lead.length + lines.length - start - end + follow.length
    return `${count === 0 ? 0 : start - lead.length + 1},${count}`
  }
  return `${header}@@ -${side(old)} +${side(now)} @@\n` +
    prefixed(" ", lead) + prefixed("-", old.slice(start, old.length - end)) + prefixed("+", now.slice(start, now.length - end)) +
    prefixed(" ", follow)
}

// ---------------------------------------------------------------------------------------------------------------
// Plans

/** Steps of a plan. Later ones are left out. */
export const PLAN_ENTRIES = 100
/** Characters of a step. */
export const PLAN_TEXT = 500

const shownStep = (text: string): string => {
  const line = visible(inOneLine(text.slice(0, 2 * PLAN_TEXT).toWellFormed()))
  return line.length <= PLAN_TEXT ? line : `${line.slice(0, PLAN_TEXT - 1).replace(/[\ud800-\udbff]$/u, "")}…`
}

/** The first steps in visible form. A step without a text is left out. */
export const shownPlan = (entries: ReadonlyArray<PlanEntry>): ReadonlyArray<PlanEntry> =>
  entries.flatMap(({ status, text }) => text.trim() === "" ? [] : [{ text: shownStep(text.trim()), status }]).slice(0, PLAN_ENTRIES)

/** The number of completed steps. */
export const completedSteps = (entries: ReadonlyArray<PlanEntry>): number => entries.filter(({ status }) => status === "completed").length
