/** Commands on the sandboxes of a server, over HTTP: logs, message, approve, diff, publish, open, stop. */
import type { ApprovalRequest, QueuedMessage, Sandbox } from "@slipway/client"
import { Console, Effect, Option, Schema } from "effect"
import { Argument, Command, Flag, Prompt } from "effect/cli"
import * as Age from "../terminal/Age.ts"
import * as EventText from "../terminal/EventText.ts"
import { openBrowser } from "../terminal/OpenBrowser.ts"
import { beginning, columns, json, jsonLine, print } from "../terminal/Output.ts"
import * as Terminal from "../terminal/Terminal.ts"
import { publishAll } from "./PublishPulls.ts"
import * as Server from "./server/Server.ts"
import * as UploadFiles from "./UploadFiles.ts"

const { CommandFailed, ExitCode } = Server
const help = (about: string) => `${about}\n\n${Server.exitCodesText}`

// logs ------------------------------------------------------------------------------------------------------------

export const logs = Command.make("logs", {
  id: Server.id,
  follow: Flag.Boolean("follow").pipe(
    Flag.withDescription("Follow new events until the sandbox ends"),
    Flag.withAlias("f"),
    Flag.withDefault(false)
  ),
  since: Flag.String("since").pipe(
    Flag.withDescription("Only events from then on: a duration such as 10m, 2h or 1d, or an ISO time"),
    Flag.filter((text) => Age.since(text, 0) !== null, () => "--since is a duration such as 10m, 2h or 1d, or an ISO time"),
    Flag.optional
  ),
  json: Flag.Boolean("json").pipe(Flag.withDescription("Print events as JSON lines"), Flag.withDefault(false)),
  giveUp: Server.giveUp,
  url: Server.url
}, ({ follow, giveUp, id: given, json, since, url }) =>
  Server.interruptible(
    Effect.gen(function*() {
      const server = yield* Server.connect(url)
      const id = yield* Server.sandboxOf(server, given)
      yield* server.call((signal) => server.client.getSandbox(id, { signal }))
      const reading = new AbortController()
      yield* Effect.addFinalizer(() => Effect.sync(() => reading.abort()))
      const events = server.client.streamEvents(id, {
        since: 0,
        signal: reading.signal,
        ...(follow || Option.isSome(giveUp) ? { giveUpMillis: Server.giveUpMillis(giveUp) } : {})
      })
      const textOf = EventText.make(Terminal.paint, { isRendered: Terminal.isStyled() })
      const from = Option.match(since, { onNone: () => 0, onSome: (text) => Age.since(text, Date.now()) ?? 0 })
      for (;;) {
        const next = yield* Server.resumable(`slipway logs ${id}${follow ? " --follow" : ""}`, server.next(events))
        if (next.done === true) break
        const event = next.value
        // The service sends this after everything in the log.
        const isAll = event.type === "sandbox.status" && !("previous" in event.data)
        if (isAll && !follow) break
        if ("ts" in event && Date.parse(event.ts) < from) continue
        yield* Terminal.write(json ? `${jsonLine(event)}\n` : textOf(event))
      }
      if (!json) yield* Terminal.write(textOf.end())
    }).pipe(Effect.scoped)
  )).pipe(
    Command.withDescription(help("Show the log of a sandbox, from its beginning.")),
    Command.withExamples([
      { command: "slipway logs c_abcdefgh2345", description: "Up to now" },
      { command: "slipway logs c_abcdefgh2345 --follow", description: "And what comes" },
      { command: "slipway logs c_abcdefgh2345 --since 10m", description: "Of the last ten minutes" },
      { command: `slipway logs c_abcdefgh2345 --json | jq 'select(.type=="tool.updated")'`, description: "For programs" }
    ])
  )

// message ---------------------------------------------------------------------------------------------------------

/** The remedies for a refused message, by the code of the refusal. */
const remedies: Readonly<Record<string, (id: string) => string>> = {
  turn_active: (id) => `Send it with --queue or --steer, or end the turn: slipway stop ${id} --turn`,
  steering_unsupported: () => "Send it with --queue.",
  sandbox_not_finished: (id) => `End it first: slipway stop ${id}`,
  queue_full: (id) => `Queued messages: slipway message ${id} --waiting`,
  message_not_waiting: (id) => `Queued messages: slipway message ${id} --waiting`
}

const withRemedy = <A>(id: string, work: Effect.Effect<A, Server.CommandFailed>) =>
  Effect.mapError(work, (failed) => {
    const remedy = remedies[failed.code ?? ""]
    return remedy === undefined ? failed : new CommandFailed({ ...failed, detail: `${failed.detail} ${remedy(id)}` })
  })

const waitingOf = ({ call, client }: Server.Server, id: string) =>
  Effect.map(call((signal) => client.snapshot(id, { signal })), ({ waiting_messages }) => waiting_messages)

const unclear = (detail: string) => new CommandFailed({ detail, exitCode: ExitCode.unclear })

/** The state of a message that may wait. */
const becameOf = (id: string, message: QueuedMessage | undefined): string => {
  if (message === undefined) return `Sent. Follow it with: slipway attach ${id}`
  const { message_id, position, steers } = message
  const told = steers ? "Steering" : `Queued as number ${position}`
  return `${told}. Cancel it with: slipway message ${id} --cancel ${message_id}`
}

const on = (name: string, about: string) => Flag.Boolean(name).pipe(Flag.withDescription(about), Flag.withDefault(false))

export const message = Command.make("message", {
  id: Server.id,
  text: Argument.String("text").pipe(
    Argument.withDescription("Message; omitted or -: standard input"),
    Argument.optional
  ),
  queue: on("queue", "During a turn: queue as a later turn"),
  steer: on("steer", "During a turn: add to that turn, if the agent can take it"),
  files: UploadFiles.files,
  cancel: Flag.String("cancel").pipe(Flag.withDescription("Cancel the queued message with this id"), Flag.optional),
  waiting: on("waiting", "List the queued messages, with their ids"),
  json,
  url: Server.url
}, ({ cancel, files, id: given, json, queue, steer, text, url, waiting }) =>
  Server.interruptible(Effect.gen(function*() {
    const does = [queue && "--queue", steer && "--steer", Option.isSome(cancel) && "--cancel", waiting && "--waiting"].filter((flag) =>
      flag !== false
    )
    if (does.length > 1) return yield* unclear(`${does.join(" and ")} do not go together: choose one.`)
    if (Option.isSome(text) && (waiting || Option.isSome(cancel))) return yield* unclear(`${does.join()} takes no text.`)
    if (files.length > 0 && (waiting || Option.isSome(cancel))) return yield* unclear(`${does.join()} takes no files.`)
    const server = yield* Server.connect(url)
    const { call, client } = server
    const id = yield* Server.sandboxOf(server, given)
    if (waiting) {
      const found = yield* waitingOf(server, id)
      return yield* print(json, found, () =>
        found.length === 0
          ? "No queued messages."
          : columns([
            ["", "MESSAGE", "MODE", "TEXT"],
            ...found.map(({ message_id, position, steers, text }) => [
              String(position),
              message_id,
              steers ? "steer" : "queue",
              beginning(EventText.line(text))
            ])
          ]))
    }
    if (Option.isSome(cancel)) {
      const result = yield* withRemedy(id, call((signal) => client.cancelMessage(id, cancel.value, { signal })))
      return yield* print(
        json,
        result,
        () => result.outcome === "duplicate" ? "Already removed from the queue." : "Removed from the queue."
      )
    }
    const prompt = Option.isNone(text) || text.value === "-" ? yield* Terminal.readPrompt : text.value
    if (prompt === null || prompt.trim() === "") return yield* unclear("there is no message: what should the agent do?")
    const added = yield* UploadFiles.upload(server, files)
    const busy = queue ? { whenBusy: "queue" as const } : steer ? { whenBusy: "steer" as const } : {}
    const result = yield* Effect.flatMap(
      withRemedy(
        id,
        call((signal) => client.sendMessage(id, prompt, { ...busy, ...(added.length === 0 ? {} : { files: added }), signal }))
      ),
      (result) => Server.applied(result)
    )
    const found = json || !queue && !steer ? [] : yield* waitingOf(server, id)
    yield* print(json, result, () => becameOf(id, found.find(({ message_id }) => message_id === result.turnId)))
  }))).pipe(
    Command.withDescription(
      help(
        "Send a message to a running sandbox: it starts the next turn. During a turn it is refused, unless it may wait (--queue) or " +
          "steer (--steer). Ten can be queued; a queued message can be cancelled."
      )
    ),
    Command.withExamples([
      { command: `slipway message c_abcdefgh2345 "Now add a test" && slipway attach c_abcdefgh2345`, description: "And follow it" },
      { command: "slipway message c_abcdefgh2345 - < review.md", description: "A message of a file" },
      { command: `slipway message c_abcdefgh2345 "It still fails" --file build.log`, description: "With a file" },
      { command: `slipway message c_abcdefgh2345 "Then update the docs" --queue`, description: "For after the active turn" },
      { command: `slipway message c_abcdefgh2345 "Leave the API alone" --steer`, description: "For the agent, now" },
      { command: "slipway message c_abcdefgh2345 --waiting", description: "Queued messages, with ids" },
      { command: "slipway message c_abcdefgh2345 --cancel 4b5a1f0e-6f0b-5a52-9d0c-0a6a3c0f2f11", description: "Cancel one" }
    ])
  )

// approve ---------------------------------------------------------------------------------------------------------

const pendingOf = ({ call, client }: Server.Server, id: string) =>
  Effect.map(call((signal) => client.snapshot(id, { signal })), ({ pending_approvals }) => pending_approvals)

/** The approval to decide. Without an id, there must be exactly one. */
const meant = Effect.fnUntraced(function*(id: string, approvalId: Option.Option<string>, pending: ReadonlyArray<ApprovalRequest>) {
  const [first, ...others] = pending
  if (Option.isSome(approvalId)) {
    return { id: approvalId.value, approval: pending.find(({ approval_id }) => approval_id === approvalId.value) }
  }
  if (first === undefined) {
    return yield* new CommandFailed({ detail: `no approval is pending in ${id}.`, exitCode: ExitCode.notFound })
  }
  if (others.length > 0) {
    const list = pending.map((one) => `${one.approval_id} (${EventText.title(one)})`).join(", ")
    return yield* new CommandFailed({ detail: `several approvals are pending: name one of ${list}.`, exitCode: ExitCode.unclear })
  }
  return { id: first.approval_id, approval: first }
})

export const approve = Command.make("approve", {
  id: Server.id,
  approval: Argument.String("approval").pipe(
    Argument.withDescription("Approval id; optional if only one waits"),
    Argument.optional
  ),
  deny: Flag.Boolean("deny").pipe(Flag.withDescription("Deny it instead"), Flag.withDefault(false)),
  reason: Flag.String("reason").pipe(
    Flag.withDescription("With --deny: the reason for the agent, up to 2,000 characters"),
    Flag.optional
  ),
  scope: Flag.Literals("scope", ["turn"]).pipe(
    Flag.withDescription("turn: also approve all others of its kind until the turn ends"),
    Flag.optional
  ),
  json,
  url: Server.url
}, ({ approval: named, deny, id: given, json, reason, scope, url }) =>
  Server.interruptible(Effect.gen(function*() {
    if (Option.isSome(reason) && !deny) return yield* unclear("--reason goes with --deny.")
    if (Option.isSome(scope) && deny) return yield* unclear("--scope does not go with --deny.")
    const server = yield* Server.connect(url)
    const id = yield* Server.sandboxOf(server, given)
    const { approval, id: approvalId } = yield* meant(id, named, yield* pendingOf(server, id))
    const decision = deny ? "deny" : "approve"
    const about = approval === undefined ? approvalId : EventText.title(approval)
    const decide = server.call((signal) =>
      deny
        ? server.client.deny(id, approvalId, { signal, ...(Option.isSome(reason) ? { reason: reason.value } : {}) })
        : server.client.approve(id, approvalId, { signal, ...(Option.isSome(scope) ? { scope: scope.value } : {}) })
    )
    const result = yield* Effect.flatMap(decide, (result) => Server.applied(result))
    yield* print(json, { approvalId, decision, ...result }, () =>
      `${result.outcome === "duplicate" ? "Already " : ""}${deny ? "denied" : "approved"}: ${about}`)
  }))).pipe(
    Command.withDescription(
      help("Approve or deny a tool call that waits for you. The first decision wins. slipway logs shows the call.")
    ),
    Command.withExamples([
      { command: "slipway approve c_abcdefgh2345", description: "The only one waiting" },
      { command: "slipway approve c_abcdefgh2345 --scope turn", description: "And all of its kind until the turn ends" },
      {
        command: `slipway approve c_abcdefgh2345 call-7 --deny --reason "Not in src"`,
        description: "Deny an approval by its id, with a reason"
      }
    ])
  )

// diff ------------------------------------------------------------------------------------------------------------

const repoFlag = Flag.String("repo").pipe(
  Flag.withDescription("Only this repository, as owner/name; default: all"),
  Flag.optional
)

const chosen = (sandbox: Sandbox, repo: Option.Option<string>): ReadonlyArray<{ readonly fullName: string }> =>
  Option.isSome(repo) ? [{ fullName: repo.value }] : sandbox.repos

export const diff = Command.make(
  "diff",
  { id: Server.id, repo: repoFlag, json, url: Server.url },
  ({ id: given, json, repo, url }) =>
    Effect.gen(function*() {
      const server = yield* Server.connect(url)
      const id = yield* Server.sandboxOf(server, given)
      const sandbox = yield* server.call((signal) => server.client.getSandbox(id, { signal }))
      const diffs = yield* Effect.forEach(chosen(sandbox, repo), ({ fullName }) =>
        Effect.map(
          server.call((signal) => server.client.diffFiles(id, { repo: fullName }, { signal })),
          (diff) => ({ repo: fullName, diff })
        ))
      const textOf = (diff: Uint8Array) => new TextDecoder().decode(diff)
      if (json) {
        return yield* Console.log(jsonLine(diffs.map(({ diff, repo }) => ({ repo, diff: textOf(diff) }))))
      }
      for (const { diff, repo } of diffs) {
        if (diffs.length > 1) yield* Terminal.say(`${diff.length === 0 ? "No changes in" : "Changes in"} ${repo}:`)
        else if (diff.length === 0) yield* Terminal.say("No changes.")
        // Unchanged bytes for programs such as git apply.
        yield* Terminal.write(process.stdout.isTTY ? EventText.patch(Terminal.paint, textOf(diff)) : diff)
      }
    })
).pipe(
  Command.withDescription(help("Show the changes of a sandbox as a patch.")),
  Command.withExamples([
    { command: "slipway diff c_abcdefgh2345", description: "In colour, in a terminal" },
    { command: "slipway diff c_abcdefgh2345 --repo acme/shop | git apply", description: "In a checkout of your own" }
  ])
)

// open ------------------------------------------------------------------------------------------------------------

export const open = Command.make(
  "open",
  {
    id: Server.id,
    preview: Flag.Int("preview").pipe(
      Flag.withDescription("The page that opens the preview of this port, 1024 to 65535"),
      Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1024, maximum: 65_535 }))),
      Flag.optional
    ),
    json,
    url: Server.url
  },
  ({ id: given, json, preview, url }) =>
    Effect.gen(function*() {
      const server = yield* Server.connect(url)
      const address = Option.isSome(preview)
        ? `${Server.pageOf(server, yield* Server.sandboxOf(server, given))}/preview?port=${preview.value}`
        : Option.isSome(given)
        ? Server.pageOf(server, yield* Server.resolve(server, given.value))
        : `${server.url}/sandboxes`
      yield* print(json, { address }, () => address)
      if (!json) yield* openBrowser(address)
    })
).pipe(
  Command.withDescription(help("Print the address of a sandbox's page, and open it in a browser if there is one.")),
  Command.withExamples([
    { command: "slipway open c_abcdefgh2345", description: "Its conversation, changes and approvals" },
    { command: "slipway open c_abcdefgh2345 --preview 5173", description: "The web server on its port 5173" },
    { command: "slipway open", description: "All sandboxes" }
  ])
)

// publish, stop ---------------------------------------------------------------------------------------------------

export const publish = Command.make(
  "publish",
  {
    id: Server.id,
    repo: repoFlag,
    ready: Flag.Boolean("ready").pipe(Flag.withDescription("Then mark it as ready for review"), Flag.withDefault(false)),
    json,
    url: Server.url
  },
  ({ id: given, json, ready, repo, url }) =>
    Effect.gen(function*() {
      const server = yield* Server.connect(url)
      const id = yield* Server.sandboxOf(server, given)
      const sandbox = yield* server.call((signal) => server.client.getSandbox(id, { signal }))
      const published = yield* publishAll(server, id, chosen(sandbox, repo), ready)
      yield* print(json, published, () => published.map(({ pullRequest }) => pullRequest?.url ?? "").join("\n"))
    })
).pipe(
  Command.withDescription(
    help("Publish a sandbox's changes as a draft pull request, or update it. Prints its address. Safe to repeat.")
  ),
  Command.withExamples([
    { command: "slipway publish c_abcdefgh2345", description: "All repositories with changes" },
    { command: "slipway publish c_abcdefgh2345 --ready", description: "And end the draft" }
  ])
)

export const sync = Command.make(
  "sync",
  { id: Server.id, json, url: Server.url },
  ({ id: given, json, url }) =>
    Server.interruptible(Effect.gen(function*() {
      const server = yield* Server.connect(url)
      const id = yield* Server.sandboxOf(server, given)
      const result = yield* Effect.flatMap(
        server.call((signal) => server.client.syncSandbox(id, { signal })),
        (result) => Server.applied(result)
      )
      yield* print(json, result, () => `Getting the newest commits for ${id}. Its log shows when they are there: slipway logs ${id}`)
    }))
).pipe(
  Command.withDescription(
    help(
      "Make the newest commits of the source host available to a sandbox's git as origin/…, between turns, so that its agent can " +
        "merge or rebase."
    )
  ),
  Command.withExamples([{
    command: "slipway sync c_abcdefgh2345",
    description: "Then: slipway message c_abcdefgh2345 \"Merge origin/main\""
  }])
)

export const stop = Command.make("stop", {
  id: Server.id,
  turn: Flag.Boolean("turn").pipe(Flag.withDescription("End only the active turn; the sandbox continues"), Flag.withDefault(false)),
  json,
  url: Server.url
}, ({ id: given, json, turn, url }) =>
  Server.interruptible(Effect.gen(function*() {
    const server = yield* Server.connect(url)
    const id = yield* Server.sandboxOf(server, given)
    const result = yield* Effect.flatMap(
      server.call((signal) => turn ? server.client.interruptTurn(id, { signal }) : server.client.terminateSandbox(id, { signal })),
      (result) => Server.applied(result)
    )
    yield* print(json, result, () =>
      turn
        ? `Stopping the turn of ${id}. Continue with: slipway message ${id} "…"`
        : `Ending ${id}. Its log and its pull requests are kept.`)
  }))).pipe(
    Command.withDescription(help("End a sandbox permanently. Unpublished changes are lost; the conversation is kept. Safe to repeat.")),
    Command.withExamples([
      { command: "slipway stop c_abcdefgh2345", description: "Permanently" },
      { command: "slipway stop c_abcdefgh2345 --turn", description: "Only its turn" }
    ])
  )

// archive, delete -------------------------------------------------------------------------------------------------

const archiving = (name: "archive" | "unarchive", about: string, done: string) =>
  Command.make(
    name,
    { ids: Server.ids, json, url: Server.url },
    ({ ids: given, json, url }) =>
      Effect.gen(function*() {
        const server = yield* Server.connect(url)
        const ids = yield* Server.sandboxesOf(server, given)
        for (const id of ids) yield* server.call((signal) => server.client.archiveSandbox(id, name === "archive", { signal }))
        yield* print(json, ids, () => ids.map((id) => `${id} ${done}`).join("\n"))
      })
  ).pipe(
    Command.withDescription(help(about)),
    Command.withExamples([{ command: `slipway ${name} c_abcdefgh2345`, description: "One sandbox, or several" }])
  )

export const archive = archiving(
  "archive",
  "Hide sandboxes from the list of the pages and from slipway ps. Nothing else changes. Safe to repeat.",
  "is archived. Undo: slipway unarchive"
)
export const unarchive = archiving("unarchive", "Show archived sandboxes in lists again. Safe to repeat.", "is in lists again.")

/** Asks on the terminal. Without a terminal no person can answer. */
const confirmed = Effect.fnUntraced(function*(ids: ReadonlyArray<string>) {
  if (!process.stdin.isTTY) return yield* unclear("There is no terminal to confirm on. Repeat with --yes to delete without a question.")
  const what = ids.length === 1 ? `${ids[0]} and all its data` : `${ids.length} sandboxes and all their data`
  return yield* Prompt.run(Prompt.Confirm({ message: `Delete ${what} for good?`, initial: false })).pipe(
    Effect.catchTag("QuitError", () => Effect.succeed(false))
  )
})

export const remove = Command.make("delete", {
  ids: Server.ids,
  yes: Flag.Boolean("yes").pipe(Flag.withDescription("Do not ask"), Flag.withAlias("y"), Flag.withDefault(false)),
  json,
  url: Server.url
}, ({ ids: given, json, url, yes }) =>
  Server.interruptible(Effect.gen(function*() {
    const server = yield* Server.connect(url)
    const ids = yield* Server.sandboxesOf(server, given)
    if (!yes && !(yield* confirmed(ids))) return yield* print(json, [], () => "Nothing was deleted.")
    for (const id of ids) yield* withRemedy(id, server.call((signal) => server.client.deleteSandbox(id, { signal })))
    yield* print(json, ids, () => ids.map((id) => `${id} is deleted.`).join("\n"))
  }))).pipe(
    Command.withDescription(
      help(
        "Delete ended sandboxes and their data for good. Forks keep the checkpoint that they need. The key needs the scope " +
          "sandboxes:delete."
      )
    ),
    Command.withExamples([
      { command: "slipway delete c_abcdefgh2345", description: "Asks first" },
      { command: "slipway delete --yes c_abcdefgh2345 c_bcdefghj2345", description: "In a script" }
    ])
  )
