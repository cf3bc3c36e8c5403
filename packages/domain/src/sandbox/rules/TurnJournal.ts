/**
 * The agent's work in one turn that is not stored yet, in order. Texts and usage wait for their interval, and a newer entry replaces a
 * waiting one of the same part. So the journal stays short for any speed of the agent.
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

type Work = SandboxEventOf<"message.updated" | "message.completed" | "plan.updated" | "tool.updated">
type ToolUpdate = Omit<SandboxEventOf<"tool.updated">["data"], "part_id" | "message_id" | "call_id">

/** The intervals between updates. */
export interface Intervals {
  /** The least interval for one part's text. Long texts wait longer. */
  readonly message: Duration.Duration
  /** The interval for the sandbox's usage. */
  readonly usage: Duration.Duration
}

/** The turn of a journal, and its settings. */
export interface Options {
  readonly turnId: Uuid
  /** The sandbox's usage before the turn. */
  readonly before: Spent
  readonly intervals: Intervals
  /** Whether details of tool calls are recorded. */
  readonly showsDetail: boolean
}

interface Entry {
  /** The part whose newer entry replaces this one; `null`: never replaced. */
  readonly part: string | null
  readonly command: SystemCommand
  readonly characters: number
  /** Milliseconds of the clock that the caller uses. */
  readonly due: number
}

interface OpenCall {
  /** The order in which open calls are closed. */
  readonly opened: number
  readonly tool: ToolUpdate
}

/** A turn may have tens of thousands of parts and calls, so the journal keeps them in maps with structural sharing. */
export interface TurnJournal extends Options {
  readonly ended: boolean
  readonly entries: ReadonlyArray<Entry>
  /** Characters of all entries together. */
  readonly characters: number
  /** The time of each part's last write. */
  readonly taken: HashMap.HashMap<string, number>
  /** The agent's newest message. */
  readonly message: string | null
  /** Calls that have not ended, and the number of all calls opened so far. */
  readonly open: HashMap.HashMap<string, OpenCall>
  readonly opened: number
  /** The usage reported last. */
  readonly reported: Spent
  readonly metered: boolean
}

/** The end of a turn. `tooLarge`: caused by an agent message above the size limit; the rule that ends the turn adds the reason. */
export interface Ending extends Pick<TurnEnd, "finish" | "reason"> {
  readonly state: TurnOutcome
  readonly initiator?: Initiator
  readonly tooLarge?: boolean
}

/** The entries to record now, in order and in one transaction, and the journal without them. */
export interface Taking {
  readonly commands: ReadonlyArray<SystemCommand>
  readonly journal: TurnJournal
  /** The due time of the next remaining entry; `null`: no entry waits. */
  readonly nextDue: number | null
}

/** The due time of entries that wait for nothing. */
const AT_ONCE = 0

/** With this many entries the agent waits for the store. */
const BACKLOG = 256

/** Characters of one transaction, except for a single larger entry. With this many the agent waits. */
const WRITE_CHARACTERS = 1024 * 1024
/**
 * Average characters of a long text written per millisecond. Each event has the whole text so far, so longer texts are written less
 * often. A streaming turn adds at most 16 KiB a second to the log.
 */
const CHARACTERS_PER_MILLI = 16

/** The approximate number of characters of the command. Only texts are counted exactly: they are long, and each word replaces them. */
const charactersOf = (command: SystemCommand): number => {
  if (command._tag !== "RecordWork") return JSON.stringify(command).length
  return command.events.reduce(
    (sum, event) => sum + (event.type === "message.updated" ? event.data.text.length : JSON.stringify(event.data).length),
    0
  )
}

/** The journal of a turn that begins at `now`: milliseconds of a monotonic clock, the same in every call. */
export const begin = (options: Options, now: number): TurnJournal => ({
  ...options,
  ended: false,
  entries: [],
  characters: 0,
  // Short turns report their usage once, at the end.
  taken: HashMap.make([partId.usage, now]),
  message: null,
  open: HashMap.empty(),
  opened: 0,
  reported: options.before,
  metered: false
})

/** Whether the agent has to wait, because too many entries are not taken. */
export const isFull = ({ characters, entries }: TurnJournal): boolean => entries.length >= BACKLOG || characters >= WRITE_CHARACTERS

/** Whether the turn has ended and all entries are taken. */
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

/** Replaces the part's waiting entry. Without one, adds an entry that is due when the part's interval is over. */
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

/** All earlier parts except this one are complete: their last texts are due now. A plan goes on. */
const hurry = (journal: TurnJournal, part: string | null): TurnJournal => ({
  ...journal,
  entries: journal.entries.map((entry) =>
    entry.part === part || entry.part === partId.usage || entry.part === partId.plan(journal.turnId) ? entry : { ...entry, due: AT_ONCE }
  )
})

const toolUpdated = (journal: TurnJournal, callId: string, tool: ToolUpdate): SystemCommand =>
  recordWork(journal, {
    type: "tool.updated",
    data: { part_id: partId.tool(callId), message_id: partId.toolsOf(journal.turnId), call_id: callId, ...tool }
  })

const report = (journal: TurnJournal, reported: Spent, command: SystemCommand): TurnJournal =>
  replace({ ...journal, reported }, partId.usage, journal.intervals.usage, command)

/** Adds an event of the agent. Events after the end are dropped. */
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
      const { _tag, callId, detail, parentCallId, ...rest } = event
      const parent = parentCallId === undefined ? {} : { parent_call_id: parentCallId }
      const tool: ToolUpdate = { ...rest, ...parent, ...(detail === undefined || !showsDetail ? {} : { detail }) }
      const isOver = tool.status === "completed" || tool.status === "error"
      const known = Option.getOrUndefined(HashMap.get(open, callId))
      const calls = isOver
        ? { open: HashMap.remove(open, callId) }
        : { open: HashMap.set(open, callId, { opened: known?.opened ?? opened, tool }), opened: opened + 1 }
      return push({ ...hurry(journal, partId.tool(callId)), ...calls }, [toolUpdated(journal, callId, tool)])
    }
    case "PlanUpdated": {
      const part = partId.plan(turnId)
      const data = { part_id: part, entries: event.entries }
      return replace(journal, part, intervals.message, recordWork(journal, { type: "plan.updated", data }))
    }
    case "ApprovalRequested": {
      const { _tag, approvalId, preview, ...rest } = event
      const request = { ...rest, ...(preview === undefined || !showsDetail ? {} : { preview }) }
      return push(journal, [{ _tag: "RequestApproval", turnId, approval: { approval_id: approvalId, ...request } }])
    }
    case "QuestionAsked": {
      const { questionId, questions } = event
      return push(hurry(journal, null), [{ _tag: "AskQuestion", turnId, question: { question_id: questionId, questions } }])
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

/** Sets the sandbox's usage so far. From then on the agent's own report is ignored. */
export const meter = (journal: TurnJournal, spent: Spent): TurnJournal => {
  const { ended, reported } = journal
  const { tokens, usage } = spent
  const metered = { ...journal, metered: true }
  return ended || isSameSpent(spent, reported) ? metered : report(metered, { usage, tokens }, { _tag: "ReportUsage", usage, tokens })
}

/** Records that the turn's programs reached a limit of their box. */
export const meet = (journal: TurnJournal, limit: BoxLimit): TurnJournal =>
  journal.ended ? journal : push(journal, [{ _tag: "ReportBoxLimit", turnId: journal.turnId, limit }])

/** Closes open calls, completes the turn's last message and ends the turn. Everything is due at once. */
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

/** Takes the entries due at `now`, in order: all, or as many as fit in one transaction. */
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
