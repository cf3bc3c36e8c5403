/** Automations, which create sandboxes by themselves, and their runs, as they are sent and stored (docs/decisions/30). */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SandboxId } from "../../ids/SandboxId.ts"
import { CreateSandbox } from "../../sandbox/usecases/CreateSandbox.ts"
import { text } from "../../text/Text.ts"
import { CronText, ZoneText } from "./Schedule.ts"
import { isKnown, namesIn, Template } from "./Template.ts"

/** Characters of a label's name, as at GitHub. */
const MAX_LABEL = 50

/** The start of runs. */
export const Trigger = Schema.Union([
  Schema.Struct({
    type: Schema.Literal("schedule"),
    cron: CronText.annotateKey({ description: "Five fields: minute, hour, day of month, month, day of week." }),
    timeZone: ZoneText.annotateKey({ description: "A name of the tz database. Default: `UTC`.", default: "UTC" }).pipe(
      Schema.withDecodingDefaultKey(Effect.succeed("UTC"))
    )
  }),
  Schema.Struct({ type: Schema.Literal("webhook") }),
  Schema.Struct({ type: Schema.Literal("mention") }),
  Schema.Struct({
    type: Schema.Literal("label"),
    label: text(1, MAX_LABEL).annotateKey({ description: "The label's name, in any case of letters." })
  })
])
export type Trigger = typeof Trigger.Type

const limit = (most: number) => Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: most }))

/** The parts of an automation that its owner chooses. */
const fields = {
  name: text(1, 120).check(
    Schema.makeFilter((name: string) => name.trim() !== "" && !/[\r\n]/u.test(name), {
      expected: "one line that is not blank",
      toJsonSchema: () => [{}, true]
    })
  ).annotateKey({ description: "A name for people." }),
  trigger: Trigger,
  repos: CreateSandbox.fields.repos.annotateKey({
    description:
      "The repositories of its sandboxes. With `mention` and `label`: those that are followed; the sandbox has the event's alone."
  }),
  prompt: Template.annotateKey({ description: "The task, with placeholders such as `{{issue.title}}`." }),
  model: CreateSandbox.fields.model,
  reasoningEffort: CreateSandbox.fields.reasoningEffort,
  toolApprovalMode: CreateSandbox.fields.toolApprovalMode,
  feedback: CreateSandbox.fields.feedback,
  maxRunning: limit(20).annotateKey({ description: "Active sandboxes of it at once.", default: 1 }).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed(1))
  ),
  maxPerDay: limit(200).annotateKey({ description: "Runs in any 24 hours.", default: 20 }).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed(20))
  )
}

/** The body of a request that makes or replaces an automation. A placeholder that its trigger cannot fill in is refused. */
export const AutomationSettings = Schema.Struct(fields).check(
  Schema.makeFilter(({ prompt, trigger }: { readonly prompt: string; readonly trigger: Trigger }) => {
    const unknown = namesIn(prompt).find((name) => !isKnown(trigger.type, name))
    return unknown === undefined
      ? undefined
      : { path: ["prompt"], issue: `unknown placeholder {{${unknown}}} for a ${trigger.type} trigger` }
  })
).annotate({ identifier: "AutomationSettings" })
export type AutomationSettings = typeof AutomationSettings.Type

/** Why an automation starts no runs: a person paused it, or five runs in a row could not start. */
export const PauseReason = Schema.Literals(["paused", "failures"])
export type PauseReason = typeof PauseReason.Type

/** Why a run did not start, with a sentence for people. */
export const Refusal = Schema.Struct({ code: Schema.String, message: Schema.String })
export type Refusal = typeof Refusal.Type

/** The state of a run. Only `starting` changes. */
export const Outcome = Schema.Union([
  /** A worker is creating its sandbox. */
  Schema.Struct({ type: Schema.Literal("starting") }),
  Schema.Struct({ type: Schema.Literal("started"), sandboxId: SandboxId }),
  Schema.Struct({ type: Schema.Literal("refused"), ...Refusal.fields }),
  /** At one of its automation's limits. It does not start later. */
  Schema.Struct({ type: Schema.Literal("skipped"), limit: Schema.Literals(["running", "day"]) })
])
export type Outcome = typeof Outcome.Type
