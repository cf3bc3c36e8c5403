/** `slipway acp`: an agent for editors, over the Agent Client Protocol on standard input and output. */
import * as acp from "@agentclientprotocol/sdk"
import { Console, Effect, Option, Result } from "effect"
import { Command, Flag } from "effect/cli"
import { Readable, Writable } from "node:stream"
import { signIn } from "../client/Auth.ts"
import { repoRef } from "../client/RunPrompt.ts"
import * as Server from "../client/server/Server.ts"
import { make, type Options } from "./AcpAgent.ts"

/** Bytes of one line of the editor. Images are in it, in base64. */
const MAX_LINE = 64 * 1024 * 1024

const log = (text: string) => void process.stderr.write(`slipway acp: ${text}\n`)

/** Serves the editor until it closes standard input, or the command is interrupted. */
const serve = (options: Options, url: string) =>
  Effect.promise(async (signal) => {
    const { app, close } = make(options, url, log)
    const input = Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>
    const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), input, { maxMessageBytes: MAX_LINE })
    const connection = app.connect(stream)
    signal.addEventListener("abort", () => connection.close(), { once: true })
    await connection.closed
    close()
    const { reason } = connection.signal
    if (reason instanceof acp.MessageTooLargeError) {
      log(`a line of the editor has more than ${MAX_LINE / 1024 / 1024} MiB. Send less at once.`)
    }
    // A pending read of standard input would keep the process.
    process.stdin.destroy()
  })

export const acpCommand = Command.make(
  "acp",
  {
    repos: Flag.String("repo").pipe(
      Flag.withDescription("Repository, as owner/name or owner/name@ref; repeatable. Default: the remote origin of the editor's folder"),
      Flag.atMost(16)
    ),
    ref: Flag.String("ref").pipe(
      Flag.withDescription("Branch, tag or commit of the first repository; default: its default branch"),
      Flag.optional
    ),
    model: Flag.String("model").pipe(Flag.withDescription("Model of the server's catalogue; default: the server's"), Flag.optional),
    approvals: Flag.Literals("approvals", ["auto", "prompt"]).pipe(
      Flag.withDescription("prompt: ask before each edit or command; auto (default): never ask"),
      Flag.optional
    ),
    signIn: Flag.Boolean("sign-in").pipe(
      Flag.withDescription("Sign in with a browser in place of serving an editor. Editors use it for their sign-in"),
      Flag.withDefault(false)
    ),
    url: Server.url
  },
  ({ approvals, model, ref, repos, signIn: isSignIn, url }) =>
    Effect.gen(function*() {
      if (isSignIn) return yield* signIn({ url, name: Option.none(), noBrowser: false, json: false })
      const refs = yield* Effect.forEach(repos, (value) =>
        Effect.mapError(
          Effect.fromResult(Result.mapError(repoRef(value), (detail) => `${detail}.`)),
          (detail) => new Server.CommandFailed({ detail, exitCode: Server.ExitCode.unclear })
        ))
      const server = yield* Server.find(url)
      if (process.stdin.isTTY) yield* Console.error("slipway acp speaks with an editor, which starts it. See docs/editors.md")
      yield* serve({
        url: Option.some(server),
        repos: refs,
        ...(Option.isSome(ref) ? { ref: ref.value } : {}),
        ...(Option.isSome(model) ? { model: model.value } : {}),
        ...(Option.isSome(approvals) ? { approvals: approvals.value } : {})
      }, server)
    })
).pipe(
  Command.withDescription(
    "Serve an editor as an agent of the Agent Client Protocol (ACP), on standard input and output. A session is a sandbox of the server, " +
      "which is created with the first prompt. The editor shows messages, tool calls, plans and approvals."
  ),
  Command.withExamples([
    { command: "slipway acp", description: "With the service of this machine" },
    { command: "slipway acp --url https://slipway.example --approvals prompt", description: "The agent asks before each edit and command" },
    { command: "slipway acp --repo acme/shop --ref develop", description: "In a folder that is no checkout" }
  ])
)
