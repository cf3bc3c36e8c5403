/** `slipway run` and `slipway attach`: an agent's turn, followed live. */
import type { NewSandbox, RepoRef, Sandbox, TokenCounts } from "@slipway/client"
import { VariableName } from "@slipway/domain/environment/schema/VariableName"
import { Usd } from "@slipway/domain/models/schema/Budget"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Console, Effect, Option, Result, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as EventText from "../terminal/EventText.ts"
import { jsonLine } from "../terminal/Output.ts"
import * as Terminal from "../terminal/Terminal.ts"
import { repositoryIn } from "./Checkout.ts"
import { follow, type Outcome } from "./Following.ts"
import { stateOf } from "./ListSandboxes.ts"
import { publishAll } from "./PublishPulls.ts"
import * as Server from "./Server.ts"
import * as UploadFiles from "./UploadFiles.ts"

const { CommandFailed, ExitCode } = Server

/** `owner/name`, or `owner/name@ref` to start from a ref. */
export const repoRef = (value: string): Result.Result<RepoRef, string> => {
  const at = value.indexOf("@")
  const fullName = at === -1 ? value : value.slice(0, at)
  if (!Schema.is(RepoName)(fullName)) return Result.fail(`${JSON.stringify(value)} is not a repository such as acme/shop or acme/shop@main`)
  if (at === -1) return Result.succeed({ fullName })
  const ref = value.slice(at + 1)
  return ref === ""
    ? Result.fail(`behind the @ of ${JSON.stringify(value)} a branch, a tag or a commit is missing`)
    : Result.succeed({ fullName, ref })
}

const isVariable: (name: string) => boolean = Schema.is(VariableName)

/** The variables of `NAME=value`. A later one of a name replaces an earlier one. */
export const variablesOf = (values: ReadonlyArray<string>): Result.Result<Readonly<Record<string, string>>, string> => {
  const found: Record<string, string> = {}
  for (const value of values) {
    const at = value.indexOf("=")
    const name = at === -1 ? value : value.slice(0, at)
    // The value is not repeated: it may be a secret in the wrong place.
    if (at === -1) return Result.fail("write each --env as NAME=value.")
    if (!isVariable(name)) {
      return Result.fail(
        `${JSON.stringify(name.slice(0, 64))} cannot be a variable: a name has letters, digits and _, no digit first, ` +
          "at most 64 characters, and is not set by the service itself."
      )
    }
    found[name] = value.slice(at + 1)
  }
  return Result.succeed(found)
}

/** The repository and the prompt of the command line, where either may be missing. */
const target = Effect.fnUntraced(function*(first: Option.Option<string>, second: Option.Option<string>) {
  // One argument that is no repository is the prompt.
  const isPrompt = Option.isNone(second) && Option.exists(first, (value) => Result.isFailure(repoRef(value)) && /\s/u.test(value))
  if (Option.isSome(first) && !isPrompt) return { repo: first.value, given: second }
  const repo = yield* Effect.promise((signal) => repositoryIn(process.cwd(), signal))
  if (repo === null) {
    return yield* failed("no repository: name it, or run the command in a checkout whose remote origin is owner/name.", ExitCode.unclear)
  }
  yield* Terminal.say(`Repository: ${repo} (the remote origin of this folder)`)
  return { repo, given: first }
})

const parsed = Effect.fnUntraced(function*(values: ReadonlyArray<string>) {
  return yield* Effect.forEach(
    values,
    (value) =>
      Effect.mapError(
        Effect.fromResult(repoRef(value)),
        (detail) => new CommandFailed({ detail: `${detail}.`, exitCode: ExitCode.unclear })
      )
  )
})

/** The first Ctrl-C detaches from the sandbox. A second one exits at once, without waiting for cleanup. */
export const detachable = <A, E, R>(id: string, work: Effect.Effect<A, E, R>) => {
  let isPressed = false
  const pressed = () => {
    if (isPressed) process.exit(ExitCode.detached)
    isPressed = true
  }
  const detached = Effect.onInterrupt(
    work,
    () => Terminal.say(`\nDetached. The sandbox continues; follow it again with: slipway attach ${id}`)
  )
  return Effect.acquireUseRelease(
    Effect.sync(() => process.on("SIGINT", pressed)),
    () => detached,
    () => Effect.sync(() => process.off("SIGINT", pressed))
  )
}

const failed = (detail: string, exitCode: number) => new CommandFailed({ detail, exitCode })

/** Reports the end of a turn, for people and scripts. */
const conclude = Effect.fnUntraced(function*(
  { call, client }: Server.Server,
  id: string,
  { outcome, tokens }: { readonly outcome: Outcome; readonly tokens: TokenCounts | null },
  json: boolean
) {
  const sandbox = yield* call((signal) => client.getSandbox(id, { signal }))
  if (!json && outcome._tag !== "NoTurn") {
    yield* Terminal.write(`${Terminal.paint("dim", `· cost so far: ${EventText.cost(sandbox.usage, tokens)}`)}\n`)
  }
  if (outcome._tag === "SandboxEnded" || outcome._tag === "NoTurn" && outcome.status !== "running") {
    const detail = `sandbox ${id}: ${stateOf(sandbox)}. See: slipway logs ${id}`
    if (sandbox.status === "succeeded") return
    return yield* failed(detail, sandbox.status === "failed" ? ExitCode.failed : ExitCode.ended)
  }
  const { state } = outcome
  if (outcome._tag === "NoTurn" && !json) {
    yield* Terminal.write(
      `No turn is active; the last one ${state === "succeeded" ? "succeeded" : `is ${state ?? "still to come"}`}. ` +
        `Go on with: slipway message ${id} "…"\n`
    )
  }
  if (state === "failed") {
    return yield* failed(`the turn failed. See: slipway logs ${id}; go on with: slipway message ${id} "…"`, ExitCode.failed)
  }
  if (state === "interrupted" || state === "cancelled") return yield* failed(`the turn was ${state}.`, ExitCode.ended)
})

/** The next steps for the person. */
const next = (id: string) => {
  const text =
    `· changes: slipway diff ${id} · pull request: slipway publish ${id} · go on: slipway message ${id} "…" · end: slipway stop ${id}`
  return Terminal.write(`${Terminal.paint("dim", text)}\n`)
}

const followTo = Effect.fnUntraced(function*(
  server: Server.Server,
  { from, giveUp, json, publish, sandbox: { id, repos }, takesPrompt }: {
    readonly from: "start" | "now"
    readonly giveUp: Option.Option<number>
    readonly json: boolean
    readonly publish: boolean
    readonly sandbox: Sandbox
    readonly takesPrompt: boolean
  }
) {
  const followed = yield* follow({ server, id, from, json, takesPrompt, giveUpMillis: Server.giveUpMillis(giveUp) })
  yield* conclude(server, id, followed, json)
  if (!publish) return json ? undefined : yield* next(id)
  const published = yield* Effect.result(publishAll(server, id, repos))
  if (json) {
    const { data } = yield* server.call((signal) => server.client.listEvents(id, { after: followed.cursor }, { signal }))
    for (const event of data) yield* Terminal.write(`${jsonLine(event)}\n`)
  }
  const pulls = yield* Effect.fromResult(published)
  if (!json) { for (const { pullRequest } of pulls) yield* Console.log(pullRequest?.url ?? "") }
})

const PROMPT_CHARACTERS = 60_000

const promptOf = Effect.fnUntraced(function*(given: Option.Option<string>) {
  const takesPrompt = Option.isNone(given) || given.value === "-"
  if (takesPrompt && process.stdin.isTTY) yield* Terminal.say("What should the agent do? End with Ctrl-D.")
  const task = takesPrompt ? yield* Terminal.readPrompt : given.value
  if (task === null || [...task].length > PROMPT_CHARACTERS) {
    return yield* failed(`a prompt has at most ${PROMPT_CHARACTERS} characters of UTF-8.`, ExitCode.unclear)
  }
  if (task.trim() === "") return yield* failed("there is no prompt: what should the agent do?", ExitCode.unclear)
  return { task, takesPrompt }
})

const jsonFlag = Flag.Boolean("json").pipe(
  Flag.withDescription("Print events as JSON lines; ask nothing"),
  Flag.withDefault(false)
)

export const run = Command.make(
  "run",
  {
    repo: Argument.String("owner/name").pipe(
      Argument.withDescription(
        "Repository to work in; owner/name@ref starts from a branch, tag or commit. Omitted: the remote origin of this folder"
      ),
      Argument.optional
    ),
    prompt: Argument.String("prompt").pipe(
      Argument.withDescription("Task for the agent; omitted or -: standard input"),
      Argument.optional
    ),
    repos: Flag.String("repo").pipe(
      Flag.withDescription("Another repository, as owner/name or owner/name@ref; repeatable"),
      Flag.atMost(15)
    ),
    model: Flag.String("model").pipe(Flag.withDescription("Model of the server's catalogue; default: the server's"), Flag.optional),
    effort: Flag.Literals("effort", ["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"]).pipe(
      Flag.withDescription("Reasoning effort, if the model has one"),
      Flag.optional
    ),
    approvals: Flag.Literals("approvals", ["auto", "prompt"]).pipe(
      Flag.withDescription("prompt: ask before each edit or command; auto (default): never ask"),
      Flag.optional
    ),
    title: Flag.String("title").pipe(
      Flag.withDescription("Title of the sandbox and its pull request; default: the prompt's first line"),
      Flag.optional
    ),
    pr: Flag.Int("pr").pipe(
      Flag.withDescription("Continue this open pull request of the first repository: start from its branch and publish to it"),
      Flag.optional
    ),
    branch: Flag.String("branch").pipe(
      Flag.withDescription("Continue this branch of the first repository: start from it and publish to it"),
      Flag.optional
    ),
    budget: Flag.String("budget").pipe(
      Flag.withDescription("Limit of the model costs of the sandbox, in US dollars such as 2.50; at most the server's"),
      Flag.withSchema(Usd),
      Flag.optional
    ),
    env: Flag.String("env").pipe(
      Flag.withDescription("Variable for setup and the agent, as NAME=value; repeatable. It is not secret"),
      Flag.atMost(50)
    ),
    files: UploadFiles.files,
    publish: Flag.Boolean("publish").pipe(
      Flag.withDescription("Publish a draft pull request after a successful turn, and print its address"),
      Flag.withDefault(false)
    ),
    detach: Flag.Boolean("detach").pipe(
      Flag.withDescription("Print the sandbox id and do not follow"),
      Flag.withAlias("d"),
      Flag.withDefault(false)
    ),
    json: jsonFlag,
    giveUp: Server.giveUp,
    url: Server.url
  },
  ({ approvals, branch, budget, detach, effort, env, files, giveUp, json, model, pr, prompt, publish, repo: named, repos, title, url }) =>
    Server.interruptible(Effect.gen(function*() {
      if (publish && detach) {
        return yield* failed("--publish waits for the turn, so it does not go with --detach. Later: slipway publish ID", ExitCode.unclear)
      }
      if (Option.isSome(pr) && Option.isSome(branch)) return yield* failed("name --pr or --branch, not both.", ExitCode.unclear)
      const variables = yield* Effect.mapError(
        Effect.fromResult(variablesOf(env)),
        (detail) => new CommandFailed({ detail, exitCode: ExitCode.unclear })
      )
      const { given, repo } = yield* target(named, prompt)
      const refs = yield* parsed([repo, ...repos])
      const server = yield* Server.connect(url)
      const { takesPrompt, task } = yield* promptOf(given)
      const added = yield* UploadFiles.upload(server, files)
      const request: NewSandbox = {
        repos: refs,
        prompt: task,
        ...(added.length === 0 ? {} : { files: added }),
        ...(Option.isSome(model) ? { model: model.value } : {}),
        ...(Option.isSome(effort) ? { reasoningEffort: effort.value } : {}),
        ...(Option.isSome(approvals) ? { toolApprovalMode: approvals.value } : {}),
        ...(Option.isSome(title) ? { title: title.value } : {}),
        ...(Option.isSome(pr) ? { continue: { repo: refs[0]?.fullName ?? "", pullRequest: pr.value } } : {}),
        ...(Option.isSome(branch) ? { continue: { repo: refs[0]?.fullName ?? "", branch: branch.value } } : {}),
        ...(Option.isSome(budget) ? { budgetMicroUsd: budget.value } : {}),
        ...(env.length > 0 ? { environment: variables } : {})
      }
      const sandbox = yield* server.call((signal) => server.client.createSandbox(request, { signal })).pipe(
        Effect.onInterrupt(() => Terminal.say("\nInterrupted during the creation. Check whether there is a sandbox: slipway ps"))
      )
      const { id } = sandbox
      if (detach) {
        yield* Console.log(json ? jsonLine(sandbox) : id)
        return json ? undefined : yield* Terminal.say(`It runs without this command. Follow it with: slipway attach ${id}`)
      }
      if (!json) yield* Terminal.write(`${Terminal.paint("bold", id)}  ${Server.pageOf(server, id)}\n`)
      yield* detachable(id, followTo(server, { from: "start", giveUp, json, publish, sandbox, takesPrompt }))
    }))
).pipe(
  Command.withDescription(
    "Have an agent work in a sandbox over your repositories, and follow it live. You decide its approvals in the terminal. " +
      "Ctrl-C leaves the sandbox running; slipway attach follows it again.\n\n" +
      Server.exitCodesText
  ),
  Command.withExamples([
    { command: `slipway run acme/shop "Fix the flaky checkout test"`, description: "Follow it to the end of the turn" },
    { command: `slipway run "Fix the flaky checkout test"`, description: "In a checkout of the repository" },
    { command: `slipway run acme/shop@develop - --approvals prompt < task.md`, description: "A prompt of a file; the agent asks first" },
    { command: `slipway run acme/shop "Update the docs" --publish`, description: "Publish and print the draft pull request's address" },
    { command: `slipway run acme/shop "Address the review" --pr 12 --publish`, description: "Continue a pull request" },
    { command: `slipway run acme/shop "Add a page" --budget 2.50 --env REGION=eu`, description: "With a budget and a variable of its own" },
    { command: `slipway run acme/shop "Make it look like this" --file design.png`, description: "With a picture" },
    { command: `ID=$(slipway run acme/shop "Add a page" --detach)`, description: "Leave it to itself" },
    { command: `slipway run acme/shop "Add a page" --json | jq -r .type`, description: "For programs" }
  ])
)

export const attach = Command.make(
  "attach",
  { id: Server.id, json: jsonFlag, giveUp: Server.giveUp, url: Server.url },
  ({ giveUp, id: given, json, url }) =>
    Effect.gen(function*() {
      const server = yield* Server.connect(url)
      const id = yield* Server.resolve(server, given)
      // Reports a wrong id at once, without the stream's retries.
      const sandbox = yield* server.call((signal) => server.client.getSandbox(id, { signal }))
      if (!json) {
        // Following says more: the approvals of an active turn, and the end of the last one.
        const state = `· ${EventText.line(sandbox.title)}: ${EventText.line(stateOf(sandbox))}`
        yield* Terminal.write(`${Terminal.paint("bold", id)}  ${Server.pageOf(server, id)}\n${Terminal.paint("dim", state)}\n`)
      }
      yield* detachable(id, followTo(server, { from: "now", giveUp, json, publish: false, sandbox, takesPrompt: false }))
    })
).pipe(
  Command.withDescription(
    "Follow the active turn of a sandbox live, and decide its approvals. slipway logs shows earlier events.\n\n" + Server.exitCodesText
  ),
  Command.withExamples([
    { command: "slipway attach c_abcdefgh2345", description: "Up to the end of its turn" },
    { command: "slipway attach c_abc", description: "By a unique prefix of its id" }
  ])
)
