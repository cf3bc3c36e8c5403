import { assert, describe, it } from "@effect/vitest"
import { type PullRequest, type Sandbox, SlipwayClient } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect, Result } from "effect"
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import { repoOfRemote } from "../../../src/commands/client/Checkout.ts"
import { publishAll } from "../../../src/commands/client/PublishPulls.ts"
import { repoRef, variablesOf } from "../../../src/commands/client/RunPrompt.ts"
import { type Details, stateOf } from "../../../src/commands/client/server/ListSandboxes.ts"
import * as Server from "../../../src/commands/client/server/Server.ts"
import { EXIT_CODES } from "../../../src/commands/terminal/ExitCodes.ts"
import { jsonLine, shellWord } from "../../../src/commands/terminal/Output.ts"
import { folder, runIn, until } from "../SlipwayProcess.ts"

/** A server that lists these ids, `page` at a time. */
const listing = (ids: ReadonlyArray<string>, page = 100): Server.Server => {
  const fetch = (input: RequestInfo | URL) => {
    const start = Number(new URL(String(input)).searchParams.get("after") ?? 0)
    const nextCursor = start + page < ids.length ? String(start + page) : null
    return Promise.resolve(Response.json({ data: ids.slice(start, start + page).map((id) => ({ id })), nextCursor }))
  }
  const client = new SlipwayClient({ baseUrl: "https://slipway.example", apiKey: "sbx_live_key", fetch })
  return {
    url: "https://slipway.example",
    client,
    call: (request) => Effect.promise(request),
    transfer: (request) => Effect.promise(request),
    next: (events) => Effect.promise(() => events.next())
  }
}
const ended = (effect: Effect.Effect<string, Server.CommandFailed>) =>
  Effect.match(effect, { onSuccess: (id) => id, onFailure: ({ exitCode }) => exitCode })

describe("the beginning of an id", () => {
  const ids = ["c_aaaaaaaaaaaa", "c_abbbbbbbbbbb", "c_bbbbbbbbbbbb"]

  it.effect("names the one sandbox that has it, on any page", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* ended(Server.resolve(listing(ids, 1), "c_bb")), "c_bbbbbbbbbbbb")
      assert.strictEqual(yield* ended(Server.resolve(listing(ids), "c_aa")), "c_aaaaaaaaaaaa")
    }))

  it.effect("is refused if it fits several sandboxes or none; a whole id needs no request", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* ended(Server.resolve(listing(ids, 1), "c_a")), Server.ExitCode.unclear)
      assert.strictEqual(yield* ended(Server.resolve(listing(ids), "c_c")), Server.ExitCode.notFound)
      assert.strictEqual(yield* ended(Server.resolve(listing([]), "c_cccccccccccc")), "c_cccccccccccc")
    }))

  it.effect("counts for nothing where not all sandboxes were looked at: another one may have it", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        yield* ended(Server.resolve(listing([...ids, ...Array<string>(8).fill("c_cccccccccccc")], 1), "c_aa")),
        Server.ExitCode.unclear
      )
    }))
})

describe("slipway publish --ready", () => {
  /** A server that answers with these states of a publication, and what it was asked. */
  const publishing = (...states: ReadonlyArray<string>) => {
    const asked: Array<readonly [method: string, body: unknown]> = []
    const fetch = (_input: RequestInfo | URL, init: RequestInit = {}) => {
      asked.push([init.method ?? "GET", typeof init.body === "string" ? JSON.parse(init.body) : null])
      const actionState = states[asked.length - 1] ?? "idle"
      return Promise.resolve(Response.json({ actionState, repository: "acme/shop", pullRequest: { number: 1 } }))
    }
    const client = new SlipwayClient({ baseUrl: "https://slipway.example", apiKey: "sbx_live_key", fetch })
    return { asked, server: { ...listing([]), client } }
  }
  const publish = (server: Server.Server, ready?: boolean) => publishAll(server, "c_aaaaaaaaaaaa", [{ fullName: "acme/shop" }], ready)
  const [repo, ready] = ["acme/shop", true]

  it.effect("asks for the end of the draft, and again once a publication that was under way has ended", () =>
    Effect.gen(function*() {
      const quick = publishing("idle")
      yield* publish(quick.server, true)
      assert.deepStrictEqual(quick.asked, [["POST", { repo, ready }]])
      const slow = publishing("publishing", "idle", "idle")
      yield* publish(slow.server, true)
      assert.deepStrictEqual(slow.asked, [["POST", { repo, ready }], ["GET", null], ["POST", { repo, ready }]])
    }))

  it.effect("is not asked for without the flag, nor after a publication that failed", () =>
    Effect.gen(function*() {
      const draft = publishing("publishing", "idle")
      yield* publish(draft.server)
      assert.deepStrictEqual(draft.asked, [["POST", { repo }], ["GET", null]])
      const failed = publishing("publishing", "failed")
      assert.strictEqual((yield* Effect.flip(publish(failed.server, true))).exitCode, Server.ExitCode.failed)
      assert.lengthOf(failed.asked, 2)
    }))
})

describe("slipway open", () => {
  it.live(
    "prints an address and opens it in the browser: the list, a sandbox, or the page of a preview's port",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const [browser, seen] = [path.join(data, "browser.mjs"), path.join(data, "seen")]
        const program = `#!${process.execPath}\nimport { renameSync, writeFileSync } from "node:fs"\n` +
          `writeFileSync("${seen}.part", process.argv[2]); renameSync("${seen}.part", "${seen}")\n`
        writeFileSync(browser, program, { mode: 0o755 })
        const settings = { SLIPWAY_API_KEY: "sbx_live_key", SLIPWAY_URL: "https://slipway.example", BROWSER: browser }
        const open = (...args: ReadonlyArray<string>) => runIn(data, ["open", ...args], settings)
        const page = "https://slipway.example/sandboxes/c_abcdefgh2345"
        for (
          const [args, address] of [
            [[], "https://slipway.example/sandboxes"],
            [["c_abcdefgh2345"], page],
            [["c_abcdefgh2345", "--preview", "5173"], `${page}/preview?port=5173`]
          ] as const
        ) {
          assert.deepInclude(yield* open(...args), { code: 0, stdout: `${address}\n` })
          yield* until(Effect.sync(() => existsSync(seen)), (isThere) => isThere)
          assert.strictEqual(readFileSync(seen, "utf8"), address)
          rmSync(seen)
        }
        // A program that reads JSON opens no browser.
        const json = yield* open("c_abcdefgh2345", "--preview", "5173", "--json")
        assert.deepStrictEqual(JSON.parse(json.stdout), { address: `${page}/preview?port=5173` })
        assert.isFalse(existsSync(seen))
        for (const wrong of ["80", "65536", "x"]) {
          assert.notStrictEqual((yield* open("c_abcdefgh2345", "--preview", wrong)).code, 0, wrong)
        }
        // No list to choose from without a terminal.
        assert.notStrictEqual((yield* open("--preview", "5173")).code, 0)
      }).pipe(Effect.scoped),
    120_000
  )
})

describe("a second Ctrl-C", () => {
  it.live("ends a command at once whose first one is not through with what it has to end", () =>
    Effect.promise(async () => {
      const program = `
        import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
        import { Effect } from "effect"
        import { detachable } from ${JSON.stringify(path.resolve(import.meta.dirname, "../../../src/commands/client/RunPrompt.ts"))}
        const say = (text) => Effect.sync(() => process.stdout.write(text))
        const stuck = Effect.onInterrupt(Effect.andThen(say("works "), Effect.never), () => Effect.andThen(say("ends "), Effect.never))
        NodeRuntime.runMain(detachable("c_abcdefgh2345", stuck))`
      const { kill, says, stop } = SpawnedProgram.start(process.execPath, ["--input-type=module", "--eval", program], {
        cwd: import.meta.dirname
      })
      try {
        await says((output) => /works/u.exec(output))
        const first = stop("SIGINT")
        await says((output) => /ends/u.exec(output))
        await stop("SIGINT")
        assert.strictEqual((await first).code, Server.ExitCode.detached)
      } finally {
        await kill()
      }
    }))
})

describe("a repository on the command line", () => {
  it("is owner/name, with the ref to start from behind an @", () => {
    assert.deepStrictEqual(Result.getOrThrow(repoRef("acme/shop")), { fullName: "acme/shop" })
    assert.deepStrictEqual(Result.getOrThrow(repoRef("acme/shop@feature/a@b")), { fullName: "acme/shop", ref: "feature/a@b" })
    for (const wrong of ["acme", "acme/shop/x", "@main", "acme/shop@", "", "../x"]) assert.isTrue(Result.isFailure(repoRef(wrong)), wrong)
  })
})

describe("a variable on the command line", () => {
  it("is a name and, behind the first =, any value; the last one of a name counts", () => {
    assert.deepStrictEqual(Result.getOrThrow(variablesOf(["REGION=eu", "_x=", "WORD=a=b c", "REGION=us"])), {
      REGION: "us",
      _x: "",
      WORD: "a=b c"
    })
    assert.deepStrictEqual(Result.getOrThrow(variablesOf([])), {})
  })

  it("is refused without a name that a sandbox can have, and the value is not repeated", () => {
    for (const wrong of ["hidden-value", "=hidden-value", "1A=hidden-value", "PATH=hidden-value", "SLIPWAY_X=hidden-value"]) {
      const refused = variablesOf(["GOOD=1", wrong])
      assert.isTrue(Result.isFailure(refused), wrong)
      assert.notInclude(JSON.stringify(refused), "hidden-value")
    }
  })
})

describe("the repository of a checkout", () => {
  it("is the end of its remote's address", () => {
    for (
      const address of ["https://github.com/acme/shop.git", "https://ada@host.example:8443/acme/shop", "git@github.com:acme/shop.git",
        "ssh://git@host.example:22/acme/shop", "https://host.example/group/acme/shop/"]
    ) {
      assert.strictEqual(repoOfRemote(address), "acme/shop", address)
    }
    for (const address of ["", "/srv/git/acme/shop", "../shop", "shop", "https://host.example/shop", "git@host:shop.git", "-x"]) {
      assert.isNull(repoOfRemote(address), address)
    }
  })
})

describe("the state of a sandbox", () => {
  const pending = { approval_id: "call-1", tool: "write", expires_at: "" }
  const pull = (state: "open" | "closed") => ({ actionState: "idle" as const, pullRequest: { state } as PullRequest })
  const state = (more: Partial<Pick<Sandbox, "error" | "status" | "turn">>, details?: Partial<Details>) =>
    stateOf(
      { status: "running", error: null, turn: { active: details === undefined }, ...more },
      details === undefined ? details : { pending_approvals: [], turn: { id: "t", state: "succeeded" }, pulls: [], ...details }
    )

  it("is one of the words that the pages have, with the reason where there is one", () => {
    assert.deepStrictEqual(
      [
        state({ status: "queued" }),
        state({ status: "creating" }),
        state({}),
        state({}, { pending_approvals: [pending] }),
        state({}, { pending_approvals: [pending, pending] }),
        state({}, {}),
        state({}, { turn: { id: "t", state: "failed" } }),
        state({}, { pulls: [pull("closed")] }),
        state({}, { turn: null }),
        state({ status: "failed", error: "No room." }),
        state({ status: "succeeded" }, { pulls: [pull("open")] }),
        state({ status: "terminated" })
      ],
      ["Starting", "Starting", "Working", "Needs you: 1 approval", "Needs you: 2 approvals", "Ready", "Failed", "Idle", "Idle",
        "Failed: No room.", "Ready", "Ended"]
    )
  })
})

describe("what is printed", () => {
  it("as JSON is the same value, with nothing in it that does something to a terminal", () => {
    const value = { a: "\u001b[2J\u009b\u202e\u2028 \u{e0001} é 日本\n", "\u0007": 1 }
    assert.deepStrictEqual(JSON.parse(jsonLine(value)), value)
    assert.strictEqual(visible(jsonLine(value)), jsonLine(value))
    assert.include(jsonLine(value), "é 日本")
  })

  it("as a word of a command line is one word", () => {
    assert.deepStrictEqual(["call-7", "a/b:c", "$(rm -rf ~)", "it's", "", "-x"].map(shellWord), [
      "call-7",
      "a/b:c",
      "'$(rm -rf ~)'",
      String.raw`'it'\''s'`,
      "''",
      "'-x'"
    ])
  })
})

describe("docs/commands.md", () => {
  it("has the exit codes that the commands end with", () => {
    const page = readFileSync(path.resolve(import.meta.dirname, "../../../../../docs/commands.md"), "utf8")
    const rows = [...page.matchAll(/^\| (\d+) \| (.+) \|$/gmu)].map(([, code, about]) => [Number(code), about])
    assert.deepStrictEqual(rows, EXIT_CODES.map(([code, about]) => [code, about]))
  })
})
