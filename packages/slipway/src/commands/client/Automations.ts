/** `slipway automations`: what creates sandboxes by itself. Asks a server with a key that has the scope `automations`. */
import { MAX_TEMPLATE } from "@slipway/domain/automation/schema/Template"
import { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { columns, json, print } from "../terminal/Output.ts"
import * as Server from "./server/Server.ts"

const PATH = "/api/internal/v1/automations"

const id = Argument.String("automation").pipe(
  Argument.withDescription("Automation id from: slipway automations list"),
  Argument.filter((text) => /^[\da-f-]{36}$/iu.test(text), (text) => `${text} is not an automation's id`)
)

/** The reply of the internal API. A newer server may add fields. */
const Automation = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  trigger: Schema.Struct({
    type: Schema.String,
    cron: Schema.optionalKey(Schema.String),
    timeZone: Schema.optionalKey(Schema.String),
    label: Schema.optionalKey(Schema.String)
  }),
  repos: Schema.Array(Schema.Struct({ fullName: Schema.String, ref: Schema.optionalKey(Schema.String) })),
  prompt: Schema.String,
  model: Schema.optionalKey(Schema.String),
  reasoningEffort: Schema.optionalKey(Schema.String),
  feedback: Schema.optionalKey(Schema.Struct({
    comments: Schema.optionalKey(Schema.String),
    checks: Schema.optionalKey(Schema.String),
    rounds: Schema.optionalKey(Schema.Int),
    publish: Schema.optionalKey(Schema.Boolean)
  })),
  toolApprovalMode: Schema.String,
  maxRunning: Schema.Int,
  maxPerDay: Schema.Int,
  state: Schema.String,
  pausedReason: Schema.NullOr(Schema.String),
  failures: Schema.Int,
  nextRunAt: Schema.NullOr(Schema.String),
  url: Schema.NullOr(Schema.String),
  createdBy: Schema.String,
  createdAt: Schema.String
})
type Automation = typeof Automation.Type
const WithSecret = Schema.Struct({ ...Automation.fields, secret: Schema.NullOr(Schema.String) })
const List = Schema.Struct({ data: Schema.Array(Automation) })
const Run = Schema.Struct({
  id: Schema.String,
  trigger: Schema.String,
  at: Schema.String,
  outcome: Schema.String,
  sandboxId: Schema.NullOr(Schema.String),
  code: Schema.NullOr(Schema.String),
  message: Schema.NullOr(Schema.String),
  limit: Schema.NullOr(Schema.String)
})
type Run = typeof Run.Type
const Runs = Schema.Struct({ data: Schema.Array(Run) })

const triggerOf = ({ trigger: { cron, label, timeZone, type } }: Automation): string =>
  cron === undefined ? (label === undefined ? type : `${type} ${visible(label)}`) : `${cron} ${timeZone}`
const stateOf = ({ pausedReason, state }: Automation): string => pausedReason === "failures" ? "paused: five runs could not start" : state
const reposOf = ({ repos }: Automation): string =>
  repos.map(({ fullName, ref }) => ref === undefined ? fullName : `${fullName}@${ref}`).join(" ")
const feedbackOf = ({ feedback = {} }: Automation): string =>
  Object.entries(feedback).map(([name, value]) => `${name} ${value}`).join(", ") || "as the repository's settings say"
const outcomeOf = ({ limit, message, outcome, sandboxId }: Run): string =>
  sandboxId ??
    (message === null
      ? (limit === null ? outcome : `skipped: limit ${limit === "day" ? "of a day" : "of active sandboxes"}`)
      : visible(message))

const described = (one: Automation): string =>
  columns([
    ["ID", one.id],
    ["NAME", visible(one.name)],
    ["TRIGGER", triggerOf(one)],
    ["STATE", stateOf(one)],
    ["NEXT RUN", one.nextRunAt ?? "none planned"],
    ["REPOSITORIES", reposOf(one)],
    ["MODEL", one.model ?? "the default"],
    ["EFFORT", one.reasoningEffort ?? "the default"],
    ["FEEDBACK", feedbackOf(one)],
    ["APPROVALS", one.toolApprovalMode],
    ["LIMITS", `${one.maxRunning} at once, ${one.maxPerDay} a day`],
    ...(one.url === null ? [] : [["WEBHOOK", one.url]]),
    ["CREATED", `${one.createdAt} by ${one.createdBy}`]
  ])

/** A command on one automation that asks the server once. */
const asking =
  <A, I>(schema: Schema.Codec<A, I>, path: string, method: "GET" | "POST", text: (found: A, id: string) => string) =>
  ({ automation, json, url }: { readonly automation: string; readonly json: boolean; readonly url: Option.Option<string> }) =>
    Server.interruptible(Effect.gen(function*() {
      const found = yield* Server.send(yield* Server.find(url), schema, `${PATH}/${automation}${path}`, method)
      yield* print(json, found, () => text(found, automation))
    }))

const list = Command.make("list", { json, url: Server.url }, ({ json, url }) =>
  Server.interruptible(Effect.gen(function*() {
    const { data } = yield* Server.send(yield* Server.find(url), List, PATH)
    yield* print(json, data, () =>
      data.length === 0 ? "No automations. Make one with: slipway automations add" : columns([
        ["ID", "NAME", "TRIGGER", "STATE", "NEXT RUN"],
        ...data.map((one) => [one.id, visible(one.name), triggerOf(one), stateOf(one), one.nextRunAt ?? ""])
      ]))
  }))).pipe(
    Command.withDescription(`List the automations of the key's grant, oldest first.\n\n${Server.exitCodesText}`),
    Command.withShortDescription("List automations"),
    Command.withExamples([{ command: "slipway automations list", description: "Their triggers and next runs" }])
  )

const bounded = (name: string, most: number, about: string, usual: number) =>
  Flag.Int(name).pipe(
    Flag.withDescription(about),
    Flag.filter((value) => value >= 1 && value <= most, () => `--${name} is 1 to ${most}`),
    Flag.withDefault(usual)
  )

/** `owner/name@ref`. */
const repoOf = (given: string) => {
  const [fullName = "", ...ref] = given.split("@")
  return ref.length === 0 ? { fullName } : { fullName, ref: ref.join("@") }
}

const flags = {
  name: Argument.String("name").pipe(Argument.withDescription("A name for people")),
  prompt: Flag.String("prompt").pipe(
    Flag.withDescription(`The task, up to ${MAX_TEMPLATE} characters, with placeholders such as {{issue.title}}`)
  ),
  repo: Flag.String("repo").pipe(
    Flag.withDescription("A repository, as owner/name or owner/name@branch; repeat for more"),
    Flag.atLeast(1)
  ),
  cron: Flag.String("cron").pipe(Flag.withDescription("Run at these times: minute, hour, day of month, month, day of week"), Flag.optional),
  timeZone: Flag.String("time-zone").pipe(Flag.withDescription("The time zone of --cron"), Flag.withDefault("UTC")),
  webhook: Flag.Boolean("webhook").pipe(Flag.withDescription("Run for each signed request"), Flag.withDefault(false)),
  mention: Flag.Boolean("mention").pipe(Flag.withDescription("Run for each comment that mentions @slipway"), Flag.withDefault(false)),
  label: Flag.String("label").pipe(Flag.withDescription("Run when an issue or pull request gets this label"), Flag.optional),
  model: Flag.String("model").pipe(Flag.withDescription("A model; default: the service's default"), Flag.optional),
  effort: Flag.Literals("effort", ReasoningEffort.literals).pipe(
    Flag.withDescription("Reasoning effort, if the model has one"),
    Flag.optional
  ),
  comments: Flag.Literals("comments", ["off", "mention", "all"]).pipe(
    Flag.withDescription("Comments on its pull requests that become work; default: as the repository's settings say"),
    Flag.optional
  ),
  checks: Flag.Literals("checks", ["off", "failing"]).pipe(
    Flag.withDescription("Whether failing checks become work; default: as the repository's settings say"),
    Flag.optional
  ),
  approvals: Flag.Boolean("approvals").pipe(Flag.withDescription("The agent asks before edits and commands"), Flag.withDefault(false)),
  maxRunning: bounded("max-running", 20, "Active sandboxes of it at once", 1),
  maxPerDay: bounded("max-per-day", 200, "Runs in any 24 hours", 20)
}

const add = Command.make("add", { ...flags, json, url: Server.url }, (given) =>
  Server.interruptible(Effect.gen(function*() {
    const {
      approvals,
      checks,
      comments,
      cron,
      effort,
      json,
      label,
      maxPerDay,
      maxRunning,
      mention,
      model,
      name,
      prompt,
      repo,
      timeZone,
      url,
      webhook
    } = given
    const triggers = [
      ...(Option.isSome(cron) ? [{ type: "schedule", cron: cron.value, timeZone }] : []),
      ...(webhook ? [{ type: "webhook" }] : []),
      ...(mention ? [{ type: "mention" }] : []),
      ...(Option.isSome(label) ? [{ type: "label", label: label.value }] : [])
    ]
    if (triggers.length !== 1) {
      return yield* new Server.CommandFailed({
        detail: "give one of --cron, --webhook, --mention and --label.",
        exitCode: Server.ExitCode.unclear
      })
    }
    const feedback = {
      ...(Option.isSome(comments) ? { comments: comments.value } : {}),
      ...(Option.isSome(checks) ? { checks: checks.value } : {})
    }
    const body = {
      name,
      trigger: triggers[0],
      repos: repo.map(repoOf),
      prompt,
      ...(Option.isSome(model) ? { model: model.value } : {}),
      ...(Option.isSome(effort) ? { reasoningEffort: effort.value } : {}),
      ...(Object.keys(feedback).length > 0 ? { feedback } : {}),
      toolApprovalMode: approvals ? "prompt" : "auto",
      maxRunning,
      maxPerDay
    }
    const made = yield* Server.send(yield* Server.find(url), WithSecret, PATH, "POST", body)
    yield* print(json, made, () =>
      made.secret === null
        ? `Automation ${made.id} is enabled.${made.nextRunAt === null ? "" : ` Its next run is at ${made.nextRunAt}.`}`
        : `${made.secret}\n\nAutomation ${made.id} runs for each request to ${made.url} that is signed with this secret. ` +
          "The secret is shown only now: keep it safe.")
  }))).pipe(
    Command.withDescription(`Make an automation. The secret of a webhook is shown once.\n\n${Server.exitCodesText}`),
    Command.withShortDescription("Make an automation"),
    Command.withExamples([
      {
        command: "slipway automations add \"Update dependencies\" --cron \"0 7 * * 1\" --time-zone Europe/Berlin --repo acme/shop " +
          "--prompt \"Update the dependencies and fix what breaks.\"",
        description: "Every Monday at seven"
      },
      {
        command: "slipway automations add \"Fix issues\" --label slipway --repo acme/shop " +
          "--prompt \"Fix this issue: {{issue.title}} {{issue.body}}\"",
        description: "For each issue that gets the label"
      }
    ])
  )

const show = Command.make("show", { automation: id, json, url: Server.url }, asking(Automation, "", "GET", described)).pipe(
  Command.withDescription(`Show an automation: its trigger, limits and next run.\n\n${Server.exitCodesText}`),
  Command.withShortDescription("Show an automation"),
  Command.withExamples([{ command: "slipway automations show <automation> --json", description: "For a script" }])
)

const runs = Command.make(
  "runs",
  { automation: id, json, url: Server.url },
  asking(Runs, "/runs", "GET", ({ data }) =>
    data.length === 0 ? "No runs in the last 30 days." : columns([
      ["AT", "TRIGGER", "RESULT"],
      ...data.map((run) => [run.at, run.trigger, outcomeOf(run)])
    ]))
).pipe(
  Command.withDescription(
    `Show the newest 100 runs of the last 30 days: their sandboxes, or why they did not start.\n\n${Server.exitCodesText}`
  ),
  Command.withShortDescription("Show runs of the last 30 days"),
  Command.withExamples([{ command: "slipway automations runs <automation>", description: "Newest first" }])
)

const run = Command.make(
  "run",
  { automation: id, json, url: Server.url },
  asking(
    Run,
    "/run",
    "POST",
    (run) =>
      run.sandboxId === null
        ? `The run did not start. ${outcomeOf(run)}`
        : `Sandbox ${run.sandboxId} starts. Follow it with: slipway attach ${run.sandboxId}`
  )
).pipe(
  Command.withDescription(`Run an automation now, also a paused one, within its limits.\n\n${Server.exitCodesText}`),
  Command.withShortDescription("Run an automation now"),
  Command.withExamples([{ command: "slipway automations run <automation>", description: "Without waiting for its trigger" }])
)

const enable = Command.make(
  "enable",
  { automation: id, json, url: Server.url },
  asking(
    Automation,
    "/enable",
    "POST",
    (one) => `Automation ${one.id} is enabled.${one.nextRunAt === null ? "" : ` Its next run is at ${one.nextRunAt}.`}`
  )
).pipe(
  Command.withDescription(`Enable an automation that is paused.\n\n${Server.exitCodesText}`),
  Command.withShortDescription("Enable an automation"),
  Command.withExamples([{ command: "slipway automations enable <automation>", description: "Once its repository can be used again" }])
)

const disable = Command.make(
  "disable",
  { automation: id, json, url: Server.url },
  asking(Automation, "/pause", "POST", (one) => `Automation ${one.id} starts no runs until it is enabled. Its sandboxes go on.`)
).pipe(
  Command.withDescription(`Pause an automation.\n\n${Server.exitCodesText}`),
  Command.withShortDescription("Pause an automation"),
  Command.withExamples([{ command: "slipway automations disable <automation>", description: "No new sandboxes" }])
)

const rotate = Command.make(
  "rotate",
  { automation: id, json, url: Server.url },
  asking(
    WithSecret,
    "/rotate-secret",
    "POST",
    ({ secret }) => `${secret}\n\nThe previous secret is valid for 24 more hours. The new secret is shown only now: keep it safe.`
  )
).pipe(
  Command.withDescription(`Replace the secret of an automation's webhook. The new one is shown once.\n\n${Server.exitCodesText}`),
  Command.withShortDescription("Replace the secret of a webhook"),
  Command.withExamples([{ command: "slipway automations rotate <automation>", description: "Senders have 24 hours to take it up" }])
)

const remove = Command.make(
  "remove",
  { automation: id, json, url: Server.url },
  ({ automation, json, url }) =>
    Server.interruptible(Effect.gen(function*() {
      yield* Server.send(yield* Server.find(url), Schema.Null, `${PATH}/${automation}`, "DELETE")
      yield* print(json, { id: automation }, () => `Automation ${automation} is removed, with its log. Its sandboxes stay.`)
    }))
).pipe(
  Command.withDescription(`Remove an automation, with its log. Its sandboxes stay.\n\n${Server.exitCodesText}`),
  Command.withShortDescription("Remove an automation"),
  Command.withExamples([{ command: "slipway automations remove <automation>", description: "It cannot be undone" }])
)

export const automations = Command.make("automations").pipe(
  Command.withDescription(
    "Automations: what creates sandboxes by schedules, signed requests, mentions and labels. The key needs the scope automations."
  ),
  Command.withSubcommands([list, add, show, runs, run, enable, disable, rotate, remove])
)
