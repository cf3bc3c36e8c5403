/**
 * What an agent did in one turn and the store does not know yet, in order. Texts and usage wait for their interval, and
 * a newer one takes the place of one that still waits, so the journal stays short however fast the agent talks.
 */
import * as Duration from "effect/Duration"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import type { Uuid } from "../../ids/Ids.ts"
import { addUsage, isSameSpent, type Spent } from "../../models/rules/Usage.ts"
import type { AgentEvent, TurnEnd } from "../schema/AgentEvent.ts"
import type { BoxLimit } from "./BoxLimit.ts"
import { type Initiator, partId, type SandboxEventOf } from "./SandboxEvent.ts"
import type { SystemCommand } from "./SystemCommand.ts"
import { finishes, type TurnOutcome } from "./Turn.ts"

type Work = SandboxEventOf<"message.updated" | "message.completed" | "tool.updated">
type ToolUpdate = Omit<SandboxEventOf<"tool.updated">["data"], "part_id" | "message_id" | "call_id">

/** How long it is from one update to the next. */
export interface Intervals {
  /** Of one part's text, at least: a long text waits longer. */
  readonly message: Duration.Duration
  /** Of what the sandbox has used. */
  readonly usage: Duration.Duration
}

/** What a journal is of, and how it is kept. */
export interface Options {
  readonly turnId: Uuid
  /** What the sandbox had used before the turn. */
  readonly before: Spent
  readonly intervals: Intervals
  /** Whether what tool calls do and write is told. */
  readonly showsDetail: boolean
}

interface Entry {
  /** What a newer entry replaces; `null`: nothing is ever replaced. */
  readonly part: string | null
  readonly command: SystemCommand
  readonly characters: number
  /** Milliseconds, by the clock of whoever keeps the journal. */
  readonly due: number
}

interface OpenCall {
  /** Calls are closed in the order of these. */
  readonly opened: number
  readonly tool: ToolUpdate
}

/** A turn may have tens of thousands of parts and calls, so what is kept of each is in maps that share what stays. */
export interface TurnJournal extends Options {
  readonly ended: boolean
  readonly entries: ReadonlyArray<Entry>
  /** Of all entries. */
  readonly characters: number
  /** When each part was taken last. */
  readonly taken: HashMap.HashMap<string, number>
  /** The message that the agent wrote last. */
  readonly message: string | null
  /** Calls that have not ended, and how many were ever opened. */
  readonly open: HashMap.HashMap<string, OpenCall>
  readonly opened: number
  /** What was reported last. */
  readonly reported: Spent
  readonly metered: boolean
}

/** How a turn ends. `tooLarge`: by a message of the agent's that is not read; the reason is then told by the rule that ends it. */
export interface Ending extends Pick<TurnEnd, "finish" | "reason"> {
  readonly state: TurnOutcome
  readonly initiator?: Initiator
  readonly tooLarge?: boolean
}

/** What is to be recorded now, in order and in one transaction, and the journal without it. */
export interface Taking {
  readonly commands: ReadonlyArray<SystemCommand>
  readonly journal: TurnJournal
  /** When the next entry of those that are left falls due; `null`: none waits. */
  readonly nextDue: number | null
}

/** When that is due which waits for nothing. */
const AT_ONCE = 0

/** From this many entries that nobody took on the agent waits for the store. */
const BACKLOG = 256

/** Characters that are written in one transaction, unless a single entry has more, and from which on the agent waits. */
const WRITE_CHARACTERS = 1024 * 1024
/**
 * Characters of a long text that are written in a millisecond on average: an event has all of the text so far, so long texts
 * are written ever more seldom, and a turn that streams costs the log 16 KiB a second at most.
 */
const CHARACTERS_PER_MILLI = 16

/** Characters of the command, about. Texts are long and are replaced with every word, so only they are not written out. */
const charactersOf = (command: SystemCommand): number => {
  if (command._tag !== "RecordWork") return JSON.stringify(command).length
  return command.events.reduce(
    (sum, event) => sum + (event.type === "message.updated" ? event.data.text.length : JSON.stringify(event.data).length),
    0
  )
}

/** Of a turn that begins at `now`: milliseconds of a clock that only moves forward, the same one in every call. */
export const begin = (options: Options, now: number): TurnJournal => ({
  ...options,
  ended: false,
  entries: [],
  characters: 0,
  // Short turns report what they used once, at their end.
  taken: HashMap.make([partId.usage, now]),
  message: null,
  open: HashMap.empty(),
  opened: 0,
  reported: options.before,
  metered: false
})

/** Whether there is so much that nobody took that the agent has to wait. */
export const isFull = ({ characters, entries }: TurnJournal): boolean => entries.length >= BACKLOG || characters >= WRITE_CHARACTERS

/** Whether the turn ended and everything has been taken. */
export const isFinished = ({ ended, entries }: TurnJournal): boolean => ended && entries.length === 0

const recordWork = ({ turnId }: TurnJournal, event: Work): SystemCommand => ({ _tag: "RecordWork", turnId, events: [event] })

const push = (journal: TurnJournal, commands: ReadonlyArray<SystemCommand>): TurnJournal => {
  const added = commands.map((command) => ({ part: null, command, characters: charactersOf(command), due: AT_ONCE }))
  return {
    ...journal,
    entries: [...journal.entries, ...added],
    characters: added.reduce((sum, { characters }) => sum + characters, journal.characters)
  }
}

/** An update of the part in the place of one that waits, else one that is due when the part's pause is over. */
const replace = (journal: TurnJournal, part: string, interval: Duration.Duration, command: SystemCommand): TurnJournal => {
  const characters = charactersOf(command)
  const at = journal.entries.findIndex((waiting) => waiting.part === part)
  const waiting = journal.entries[at]
  if (waiting !== undefined) {
    return {
      ...journal,
      entries: journal.entries.with(at, { ...waiting, command, characters }),
      characters: journal.characters + characters - waiting.characters
    }
  }
  const pause = Math.max(Duration.toMillis(interval), characters / CHARACTERS_PER_MILLI)
  const due = Option.match(HashMap.get(journal.taken, part), { onNone: () => AT_ONCE, onSome: (taken) => taken + pause })
  return {
    ...journal,
    entries: [...journal.entries, { part, command, characters, due }],
    characters: journal.characters + characters
  }
}

/** What began before is whole, but for this part: its last text goes first, whenever it would have been due. */
const hurry = (journal: TurnJournal, part: string | null): TurnJournal => ({
  ...journal,
  entries: journal.entries.map((entry) => entry.part === part || entry.part === partId.usage ? entry : { ...entry, due: AT_ONCE })
})

const toolUpdated = (journal: TurnJournal, callId: string, tool: ToolUpdate): SystemCommand =>
  recordWork(journal, {
    type: "tool.updated",
    data: { part_id: partId.tool(callId), message_id: partId.toolsOf(journal.turnId), call_id: callId, ...tool }
  })

const report = (journal: TurnJournal, reported: Spent, command: SystemCommand): TurnJournal =>
  replace({ ...journal, reported }, partId.usage, journal.intervals.usage, command)

/** The agent did this. Nothing that it does after the end counts. */
export const add = (journal: TurnJournal, event: AgentEvent): TurnJournal => {
  if (journal.ended) return journal
  const { intervals, open, opened, showsDetail, turnId } = journal
  switch (event._tag) {
    case "MessageUpdated": {
      const { kind, messageId, text } = event
      const part = partId[kind](messageId)
      return replace(
        hurry({ ...journal, message: messageId }, part),
        part,
        intervals.message,
        recordWork(journal, { type: "message.updated", data: { part_id: part, message_id: messageId, kind, text } })
      )
    }
    case "ToolUpdated": {
      const { _tag, callId, detail, ...rest } = event
      const tool: ToolUpdate = { ...rest, ...(detail === undefined || !showsDetail ? {} : { detail }) }
      const isOver = tool.status === "completed" || tool.status === "error"
      const known = Option.getOrUndefined(HashMap.get(open, callId))
      const calls = isOver
        ? { open: HashMap.remove(open, callId) }
        : { open: HashMap.set(open, callId, { opened: known?.opened ?? opened, tool }), opened: opened + 1 }
      return push({ ...hurry(journal, partId.tool(callId)), ...calls }, [toolUpdated(journal, callId, tool)])
    }
    case "ApprovalRequested": {
      const { _tag, approvalId, preview, ...rest } = event
      const request = { ...rest, ...(preview === undefined || !showsDetail ? {} : { preview }) }
      return push(journal, [{ _tag: "RequestApproval", turnId, approval: { approval_id: approvalId, ...request } }])
    }
    case "MessageSteered":
      return push(hurry(journal, null), [{ _tag: "RecordSteer", turnId, messageId: event.messageId }])
    case "UsageReported": {
      const { costMicroUsd, llmRequestCount } = event
      if (journal.metered) return journal
      const usage = addUsage(journal.before.usage, { llmRequestCount, costMicroUsd, creditsChargedMicros: 0 })
      return report(journal, { ...journal.reported, usage }, { _tag: "ReportUsage", usage })
    }
  }
}

/** What the sandbox has used by now. What the agent itself says of it counts no more. */
export const meter = (journal: TurnJournal, spent: Spent): TurnJournal => {
  const { ended, reported } = journal
  const { tokens, usage } = spent
  const metered = { ...journal, metered: true }
  return ended || isSameSpent(spent, reported) ? metered : report(metered, { usage, tokens }, { _tag: "ReportUsage", usage, tokens })
}

/** The turn's programs met a limit of their box. */
export const meet = (journal: TurnJournal, limit: BoxLimit): TurnJournal =>
  journal.ended ? journal : push(journal, [{ _tag: "ReportBoxLimit", turnId: journal.turnId, limit }])

/** Closes what the agent left open, completes the turn's last message and ends the turn. Everything is due at once. */
export const end = (journal: TurnJournal, { finish, tooLarge = false, ...ending }: Ending): TurnJournal => {
  const { entries, message, open, turnId } = journal
  const calls = HashMap.toEntries(open).sort(([, a], [, b]) => a.opened - b.opened)
  const closing: ReadonlyArray<SystemCommand> = [
    ...calls.map(([callId, { tool }]) => toolUpdated(journal, callId, { ...tool, status: "error", error: "the turn ended first" })),
    ...(message === null ? [] : [
      recordWork(journal, { type: "message.completed", data: { message_id: message, finish: finish ?? finishes[ending.state] } })
    ]),
    tooLarge ? { _tag: "RefuseMessage", turnId } : { _tag: "EndTurn", turnId, ...ending }
  ]
  return { ...push({ ...journal, entries: entries.map((entry) => ({ ...entry, due: AT_ONCE })) }, closing), ended: true }
}

/** Takes what is due at `now`, in order: all of it, or as much as goes into one transaction. */
export const take = (journal: TurnJournal, now: number): Taking => {
  const due: Array<Entry> = []
  const left: Array<Entry> = []
  let characters = 0
  for (const entry of journal.entries) {
    if (entry.due > now || characters >= WRITE_CHARACTERS) left.push(entry)
    else {
      due.push(entry)
      characters += entry.characters
    }
  }
  return {
    commands: due.map(({ command }) => command),
    journal: {
      ...journal,
      entries: left,
      characters: journal.characters - characters,
      taken: due.reduce((taken, { part }) => part === null ? taken : HashMap.set(taken, part, now), journal.taken)
    },
    nextDue: left.length === 0 ? null : left.reduce((first, entry) => Math.min(first, entry.due), Number.POSITIVE_INFINITY)
  }
}
