/** `slipway run` and its family over a real service, at a terminal and in scripts. */
import { assert, layer } from "@effect/vitest"
import { SlipwayClient } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { proxyTo } from "@slipway/http/testing/CuttingProxy"
import { Context, Effect, Fiber, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { stripVTControlCharacters } from "node:util"
import { folder, repository, run, runIn, serve, until } from "../../commands/SlipwayProcess.ts"
import * as PseudoTerminal from "./PseudoTerminal.ts"

const LONG = 300_000

/** A service with `acme/shop`, and a key for it. */
class Service extends Context.Service<Service, {
  readonly data: string
  readonly shop: string
  readonly client: SlipwayClient
  readonly settings: Readonly<Record<string, string>>
}>()("slipway/test/RunInTerminal") {
  static readonly layer = Layer.effect(
    Service,
    Effect.gen(function*() {
      const data = yield* folder
      const shop = repository(data)
      yield* run(data, ["repos", "add", "acme/shop", shop])
      const { key = "", url } = yield* serve(data)
      const settings = { SLIPWAY_URL: url, SLIPWAY_API_KEY: key, XDG_CONFIG_HOME: path.join(data, "config") }
      return { data, shop, settings, client: new SlipwayClient({ baseUrl: url, apiKey: key }) }
    })
  )
}

const idIn = (text: string): string => /c_[a-z2-9]{12}/u.exec(text)?.[0] ?? assert.fail(text)
const at = (args: ReadonlyArray<string>, more: Readonly<Record<string, string>> = {}) =>
  Effect.flatMap(Service, ({ data, settings }) => PseudoTerminal.open(data, args, { ...settings, ...more }))
const slipway = (args: ReadonlyArray<string>, more: Readonly<Record<string, string | undefined>> = {}, input?: string) =>
  Effect.flatMap(Service, ({ data, settings }) => runIn(data, args, { ...settings, ...more }, input === undefined ? {} : { input }))
const pending = Effect.fnUntraced(function*(id: string) {
  const { client } = yield* Service
  return (yield* Effect.promise(() => client.snapshot(id))).pending_approvals
})
/** A sandbox that is left to itself, once it has told `type`. */
const detached = Effect.fnUntraced(function*(prompt: string, type: string, ...flags: ReadonlyArray<string>) {
  const { client } = yield* Service
  const made = yield* slipway(["run", "acme/shop", prompt, "--detach", ...flags])
  assert.deepStrictEqual([made.code, /^c_[a-z2-9]{12}\n$/u.test(made.stdout)], [0, true], made.stderr)
  const id = made.stdout.trim()
  yield* until(Effect.promise(() => client.listEvents(id)), ({ data }) => data.some((event) => event.type === type))
  return id
})

layer(Service.layer, { excludeTestServices: true, timeout: LONG })("slipway run (needs script, of the package bsdutils)", (it) => {
  const atTerminal = it.effect.skipIf(!PseudoTerminal.isPossible)

  atTerminal(
    "asks in the terminal, takes no answer that came before the question, and publishes after the turn",
    () =>
      Effect.gen(function*() {
        const prompt = "[[say I begin.]] [[slow 12 200]] [[write path=HELLO.md content=Hello]] [[shell echo made; ls]] [[say I am done.]]"
        const terminal = yield* at(["run", "acme/shop@main", prompt, "--approvals", "prompt", "--publish", "--title", "Greet"])
        yield* terminal.shows(/I begin\./u)
        yield* terminal.type("y\r")
        const asked = yield* terminal.shows(/Approve "Write HELLO\.md"\?/u)
        const id = idIn(asked)
        assert.lengthOf(yield* pending(id), 1)
        assert.include(asked, "\u001b[32m+Hello", "what will be written is shown, in colour")

        yield* terminal.type("\r")
        yield* terminal.type("perhaps\r")
        yield* until(Effect.sync(terminal.said), (said) => said.split("Approve \"Write HELLO.md\"?").length === 4)
        assert.lengthOf(yield* pending(id), 1, "nothing but a clear yes approves")
        yield* terminal.type("y\r")
        yield* terminal.shows(/Approve "[^"]*echo made/u)
        yield* terminal.type("a\r")
        assert.strictEqual(yield* terminal.ended, 0, terminal.said())

        const said = terminal.said()
        for (const text of ["clone acme/shop", "I am done.", "  │ made", "The turn succeeded", "cost so far: $0.00"]) {
          assert.include(said, text)
        }
        const { shop } = yield* Service
        const [, pull = ""] = /^(http\S+)\r?$/mu.exec(said.slice(said.indexOf("cost so far"))) ?? []
        assert.match(pull, /\/local\/acme\/shop\/pulls\/1$/u)
        const published = execFileSync("git", ["-C", shop, "show", `slipway/${id}:HELLO.md`]).toString()
        assert.strictEqual(published, "Hello\n")
      }),
    LONG
  )

  atTerminal(
    "Ctrl-C leaves the sandbox to itself and says how to come back; attach asks what waits, until somebody else decides",
    () =>
      Effect.gen(function*() {
        const { client } = yield* Service
        const first = yield* at(["run", "acme/shop", "[[slow 5 50]] [[shell echo attached]] [[say All done.]]", "--approvals", "prompt"])
        const id = idIn(yield* first.shows(/Approve /u))
        yield* first.pressControlC
        assert.strictEqual(yield* first.ended, 130)
        assert.include(first.said(), `Detached. The sandbox continues; follow it again with: slipway attach ${id}`)
        assert.isTrue((yield* Effect.promise(() => client.getSandbox(id))).turn.active)

        const following = yield* at(["logs", id, "--follow"])
        yield* following.shows(/The agent asks/u)
        yield* following.pressControlC
        assert.strictEqual(yield* following.ended, 130)

        const second = yield* at(["attach", id.slice(0, 9)])
        yield* second.shows(/Approve "[^"]*echo attached/u)
        const [waiting] = JSON.parse((yield* slipway(["ps", "--json"])).stdout).filter((one: { id: string }) => one.id === id)
        assert.strictEqual(waiting.pendingApprovals, 1)
        assert.match((yield* slipway(["ps"])).stdout, new RegExp(`^${id} +Needs you: 1 approval +acme/shop`, "mu"))

        const decided = yield* slipway(["approve", id])
        assert.deepStrictEqual([decided.code, decided.stderr], [0, ""])
        assert.match(decided.stdout, /^approved: .*echo attached/u)
        assert.strictEqual(yield* second.ended, 0, second.said())
        assert.include(second.said(), "All done.")
      }),
    LONG
  )

  atTerminal(
    "agents' text does nothing to the terminal but be seen, and has no colours where they are unwanted",
    () =>
      Effect.gen(function*() {
        const hostile = "\u001b]0;owned\u0007\u001b[2J\u009b31m\rfake\u202e\u0008 and plain"
        const prompt = `[[say ${hostile}]] [[shell printf '\\033[2J\\033]0;owned\\007\\n'; echo out]] [[error ${hostile}]]`
        const terminal = yield* at(["run", "acme/shop", prompt])
        assert.strictEqual(yield* terminal.ended, 3)
        const said = terminal.said()
        const id = idIn(said)
        assert.include(said, "⟨ESC⟩]0;owned⟨BEL⟩⟨ESC⟩[2J⟨CSI⟩31m⟨CR⟩fake⟨RIGHT-TO-LEFT OVERRIDE⟩⟨BS⟩ and plain")
        // Colours are ours; carriage returns are the terminal's.
        const isHarmless = (text: string) => {
          // The line with the boot is drawn again.
          const drawn = text.replaceAll("\r\n", "\n").replaceAll("\r\u001b[2K", "")
          const theirs = stripVTControlCharacters(drawn)
          return theirs === visible(theirs) && drawn.split("\u001b").slice(1).every((rest) => /^\[\d+m/u.test(rest))
        }
        assert.isTrue(isHarmless(said), JSON.stringify(said))
        for (const args of [["logs", id], ["logs", id, "--json"], ["ps"], ["ps", "--json"]]) {
          const shown = yield* at(args)
          assert.strictEqual(yield* shown.ended, 0, shown.said())
          assert.include(shown.said(), "owned")
          assert.isTrue(isHarmless(shown.said()), args.join(" "))
        }

        const plain = yield* at(["logs", id], { NO_COLOR: "1" })
        assert.strictEqual(yield* plain.ended, 0)
        assert.include(plain.said(), "The turn failed")
        assert.notInclude(plain.said(), "\u001b")
        assert.include(said, "\u001b[31m")
      }),
    LONG
  )

  atTerminal(
    "lets a person choose the sandbox or the repository that is missing, by some of its letters, and asks nothing in a script",
    () =>
      Effect.gen(function*() {
        const door = yield* detached("[[say Of the door.]]", "turn.completed", "--title", "Paint the door")
        yield* detached("[[say Of the hinge.]]", "turn.completed", "--title", "Oil the hinge")
        const logs = yield* at(["logs"])
        yield* logs.shows(/Sandbox[^]*Paint the door/u)
        yield* logs.type("door")
        yield* until(Effect.sync(logs.said), (said) => !said.slice(said.lastIndexOf("Sandbox")).includes("hinge"))
        yield* logs.type("\r")
        assert.strictEqual(yield* logs.ended, 0, logs.said())
        assert.include(logs.said(), "Of the door.")
        assert.notInclude(logs.said(), "Of the hinge.")

        const made = yield* at(["run", "[[say Chosen.]]", "--detach"])
        yield* made.shows(/Repository[^]*acme\/shop/u)
        yield* made.type("\r")
        assert.strictEqual(yield* made.ended, 0, made.said())
        assert.notStrictEqual(idIn(made.said()), door)

        const left = yield* at(["logs"])
        yield* left.shows(/Sandbox[^]*Paint the door/u)
        yield* left.pressControlC
        assert.strictEqual(yield* left.ended, 130, left.said())

        const script = yield* slipway(["logs"])
        assert.deepStrictEqual([script.code, script.stdout], [2, ""])
        assert.match(script.stderr, /no sandbox: give its id/u)
      }),
    LONG
  )

  it.effect("goes on where the connection was lost, and tells everything once", () =>
    Effect.gen(function*() {
      const { client, settings } = yield* Service
      const { hostname, port } = new URL(settings["SLIPWAY_URL"] ?? "")
      const between = yield* proxyTo({ host: hostname, port: Number(port) })
      const running = yield* Effect.forkChild(
        slipway(["run", "acme/shop", "[[slow 30 100]] [[say The end.]]", "--title", "Cut", "--json"], { SLIPWAY_URL: between.url })
      )
      const [made] = yield* until(
        Effect.promise(() => client.listSandboxes({ limit: 100 })).pipe(
          Effect.map(({ data }) => data.filter(({ title }) => title === "Cut"))
        ),
        (found) => found.length === 1
      )
      const id = made?.id ?? ""
      yield* until(Effect.promise(() => client.listEvents(id)), ({ data }) => data.some(({ type }) => type === "message.updated"))
      between.cut()
      const { code, stderr, stdout } = yield* Fiber.join(running)
      assert.strictEqual(code, 0, stderr)
      assert.include(stderr, `the connection to ${between.url} is lost; trying again`)
      const told = stdout.trim().split("\n").map((line) => JSON.parse(line)).filter((event) => "id" in event)
      assert.deepStrictEqual(told, [...(yield* Effect.promise(() => client.listEvents(id))).data].slice(0, told.length))
      assert.strictEqual(told.at(-1)?.type, "turn.completed")
    }), LONG)

  atTerminal(
    "a denial is told to the agent with what was typed behind it, and one answer approves all of a kind for the turn",
    () =>
      Effect.gen(function*() {
        const { client } = yield* Service
        const writes = ["a", "b", "c"].map((name) => `[[write path=${name}.md content=${name}]]`).join(" ")
        const terminal = yield* at(["run", "acme/shop", `${writes} [[write path=.env content=d]] [[shell echo last]]`, "--approvals",
          "prompt"])
        const id = idIn(yield* terminal.shows(/Approve "Write a\.md"\?[^\n]*k: all of its kind this turn/u))
        yield* terminal.type("n it is named README\r")
        yield* terminal.shows(/I was told: it is named README/u)
        yield* terminal.shows(/Approve "Write b\.md"\?/u)
        yield* terminal.type("k\r")
        yield* terminal.shows(/Approve "Write \.env"\?(?![^\n]*k: all of its kind this turn)/u)
        yield* terminal.type("y\r")
        yield* terminal.shows(/Approve "[^"]*echo last/u)
        yield* terminal.type("y\r")
        assert.strictEqual(yield* terminal.ended, 0, terminal.said())
        assert.notInclude(terminal.said(), "Approve \"Write c.md\"?")
        const { data } = yield* Effect.promise(() => client.listEvents(id))
        assert.deepStrictEqual(
          data.flatMap((event) =>
            event.type === "approval.resolved" ? [[event.data.outcome, event.data.by, event.data.scope ?? event.data.reason]] : []
          ),
          [["denied", "user", "it is named README"], ["approved", "user", "turn"], ["approved", "policy", undefined], ["approved", "user",
            undefined], ["approved", "user", undefined]]
        )
      }),
    LONG
  )

  it.effect("lets scripts decide, message, follow, compare, publish and stop", () =>
    Effect.gen(function*() {
      const id = yield* detached("[[write path=a.md content=one]]", "approval.requested", "--approvals", "prompt")
      const [approval] = yield* pending(id)
      const approvalId = approval?.approval_id ?? ""
      const refused = yield* slipway(["approve", id, approvalId, "--reason", "Why not."])
      assert.deepStrictEqual([refused.code, refused.stderr], [2, "slipway: --reason goes with --deny.\n"])
      const denied = yield* slipway(["approve", id, approvalId, "--deny", "--reason", "Not there.", "--json"])
      assert.deepStrictEqual([denied.code, JSON.parse(denied.stdout).outcome], [0, "applied"], denied.stderr)
      const late = yield* slipway(["approve", id, approvalId])
      assert.deepStrictEqual([late.code, late.stdout], [4, ""])
      assert.match(late.stderr, /^slipway: [^\n]*first decision stands\.\n$/u)
      assert.strictEqual((yield* slipway(["attach", id])).code, 0)
      assert.match((yield* slipway(["logs", id])).stdout, /Denied: Not there\.[^]*I was told: Not there\./u)
      assert.strictEqual((yield* slipway(["diff", id])).stdout, "")

      const sent = yield* slipway(["message", id, "-"], {}, "[[write path=b.md content=two]] [[say Written.]]")
      assert.deepStrictEqual([sent.code, sent.stderr], [0, ""])
      const following = yield* Effect.forkChild(slipway(["attach", id]))
      yield* until(pending(id), (waiting) => waiting.length === 1)
      assert.strictEqual((yield* slipway(["approve", id])).code, 0)
      const followed = yield* Fiber.join(following)
      assert.strictEqual(followed.code, 0)
      assert.notInclude(followed.stdout, "\u001b", "no colours where there is no terminal")

      assert.include((yield* slipway(["diff", id])).stdout, "+two\n")
      const published = yield* slipway(["publish", id])
      assert.deepStrictEqual(
        [published.code, /^http\S+\/pulls\/\d+\n$/u.test(published.stdout)],
        [0, true],
        published.stdout + published.stderr
      )
      const ready = yield* slipway(["publish", id, "--ready", "--json"])
      assert.strictEqual(ready.code, 0, ready.stderr)
      assert.deepStrictEqual(
        JSON.parse(ready.stdout).map(({ pullRequest }: { readonly pullRequest: { readonly draft: boolean } }) => pullRequest.draft),
        [false]
      )
      const logs = yield* slipway(["logs", id, "--json"])
      const log = logs.stdout.trim().split("\n").map((line) => JSON.parse(line))
      assert.isTrue(log.some(({ data, type }) => type === "pull_request.updated" && published.stdout.trim() === data.url))
      assert.strictEqual((yield* slipway(["stop", id])).code, 0)
      const followedToEnd = yield* slipway(["logs", id, "--follow"])
      assert.deepStrictEqual([followedToEnd.code, /Ended\./u.test(followedToEnd.stdout)], [0, true])
      assert.strictEqual((yield* slipway(["message", id, "more"])).code, 4)
      assert.strictEqual((yield* slipway(["attach", id])).code, 8)
    }), LONG)

  it.effect(
    "lets a message wait or steer while a turn is active, says how to take it back, and what helps where it is refused",
    () =>
      Effect.gen(function*() {
        const id = yield* detached("[[say Listening.]] [[listen]] [[hang]]", "message.updated")
        const message = (...args: ReadonlyArray<string>) => slipway(["message", id, ...args])
        const busy = yield* message("More")
        assert.deepStrictEqual([busy.code, busy.stdout], [4, ""])
        assert.match(busy.stderr, /turn_active.*Send it with --queue or --steer, or end the turn: slipway stop c_\w+ --turn\n$/u)
        const steered = yield* message("[[say Steered.]]", "--steer")
        assert.deepStrictEqual([steered.code, steered.stderr], [0, ""])
        const queued = yield* message("[[say First.]]", "--queue")
        const [, first = ""] = /^Queued as number 1\. Cancel it with: slipway message c_\w+ --cancel (\S+)\n$/u.exec(queued.stdout) ??
          assert.fail(queued.stdout + queued.stderr)
        const second = JSON.parse((yield* message("[[say Second.]]", "--queue", "--json")).stdout).turnId
        const waiting = JSON.parse((yield* message("--waiting", "--json")).stdout)
        assert.deepStrictEqual(waiting.map((one: Record<string, unknown>) => [one["message_id"], one["position"]]), [[first, 1], [second,
          2]])
        assert.match((yield* message("--waiting")).stdout, new RegExp(`^1 +${first} +queue +\\[\\[say First\\.\\]\\]$`, "mu"))

        const taken = yield* message("--cancel", first)
        assert.deepStrictEqual([taken.code, taken.stdout], [0, "Removed from the queue.\n"])
        assert.strictEqual((yield* message("--cancel", first)).stdout, "Already removed from the queue.\n")
        for (let n = 2; n <= 10; n++) assert.strictEqual((yield* message(`Message ${n}`, "--queue")).code, 0)
        const full = yield* message("Eleventh", "--queue")
        assert.strictEqual(full.code, 4)
        assert.match(full.stderr, /queue_full.*Queued messages: slipway message c_\w+ --waiting\n$/u)
        assert.strictEqual((yield* message("--cancel", "00000000-0000-4000-8000-000000000000")).code, 5)
        for (const args of [["x", "--queue", "--steer"], ["x", "--cancel", first], ["--waiting", "--cancel", first]]) {
          const unclear = yield* message(...args)
          assert.deepStrictEqual([unclear.code, unclear.stdout], [2, ""], args.join(" "))
        }
        assert.match((yield* slipway(["logs", id])).stdout, /Queued as number 1: \[\[say First[^]*cancelled: by a person/u)
        assert.strictEqual((yield* slipway(["stop", id])).code, 0)
        assert.strictEqual((yield* message("--cancel", second)).code, 4)
        assert.strictEqual((yield* message("--waiting")).stdout, "No queued messages.\n")
      }),
    LONG
  )

  it.effect("ends with a code that says what came of it", () =>
    Effect.gen(function*() {
      const ended: ReadonlyArray<readonly [code: number, args: ReadonlyArray<string>, more: Readonly<Record<string, string>>, RegExp]> = [
        [3, ["run", "acme/shop", "[[error no luck]]"], {}, /^slipway: the turn failed\./mu],
        [4, ["run", "acme/other", "Hello"], {}, /repo_not_accessible/u],
        [4, ["run", "acme/shop", "[[say Nothing.]]", "--publish"], {}, /no sandbox changes/u],
        [4, ["run", "acme/shop", "Hello", "--model", "no/such"], {}, /invalid_model/u],
        [5, ["attach", "c_abcdefgh2345"], {}, /not_found/u],
        [5, ["logs", "c_22222222222"], {}, /no sandbox at http/u],
        [1, ["stop", "c_"], {}, /is not a sandbox id/u],
        [2, ["run", "acme/shop", "Hello", "--detach", "--publish"], {}, /--publish/u],
        [2, ["run", "acme/shop@", "Hello"], {}, /a branch, a tag or a commit is missing/u],
        [2, ["run", "acme/shop", "  "], {}, /no prompt/u],
        [2, ["ps", "--url", "ftp://slipway.example"], {}, /not the address of a server/u],
        [6, ["ps"], { SLIPWAY_API_KEY: "sbx_live_wrong" }, /does not accept the key in SLIPWAY_API_KEY/u],
        [6, ["ps"], { SLIPWAY_API_KEY: "" }, /there is no key for http/u],
        [7, ["ps", "--url", "http://127.0.0.1:1"], {}, /nothing answers at http:\/\/127\.0\.0\.1:1\./u]
      ]
      for (const [code, args, more, line] of ended) {
        const it = yield* slipway(args, more)
        assert.strictEqual(it.code, code, `${args.join(" ")}\n${it.stdout}${it.stderr}`)
        assert.match(it.stderr, line)
        assert.notInclude(it.stderr, "sbx_live")
      }
      const id = yield* detached("[[hang]]", "turn.started")
      const following = yield* Effect.forkChild(slipway(["attach", id]))
      assert.strictEqual((yield* slipway(["stop", id, "--turn"])).code, 0)
      assert.strictEqual((yield* Fiber.join(following)).code, 8)
    }), LONG)

  atTerminal(
    "asks for the sandbox or the repository that the command line lacks, and finds it by the typed text",
    () =>
      Effect.gen(function*() {
        const id = yield* detached("[[write path=chosen.md content=Chosen]]", "turn.completed", "--title", "Choose the blue one")
        yield* detached("[[say Other.]]", "turn.completed", "--title", "Leave the other")
        const choosing = yield* at(["diff"])
        yield* choosing.shows(/Sandbox[^]*Leave the other/u)
        yield* choosing.type("BLUE")
        yield* until(Effect.sync(choosing.said), (said) => !said.slice(said.lastIndexOf("BLUE")).includes("Leave the other"))
        yield* choosing.type("\r")
        assert.strictEqual(yield* choosing.ended, 0, choosing.said())
        assert.include(choosing.said(), "+Chosen")
        assert.include(choosing.said(), id)
        const running = yield* at(["run", "--detach"])
        yield* running.shows(/Repository[^]*acme\/shop/u)
        yield* running.pressControlC
        assert.strictEqual(yield* running.ended, 130, running.said())
        const script = yield* slipway(["diff"])
        assert.deepStrictEqual([script.code, script.stderr], [2, "slipway: no sandbox: give its id. See: slipway ps\n"])
      }),
    LONG
  )

  it.effect("sends any request of the API, prints its reply, and ends with a code of its status", () =>
    Effect.gen(function*() {
      const { settings } = yield* Service
      const key = settings["SLIPWAY_API_KEY"] ?? ""
      const made = yield* slipway(["api", "post", "/sandboxes", "--field", "prompt=[[say Hello.]]", "-f", "title=By the API", "--field",
        `repos=[{"fullName":"acme/shop"}]`])
      assert.strictEqual(made.code, 0, made.stderr)
      const { id, title } = JSON.parse(made.stdout)
      assert.strictEqual(title, "By the API")
      const got = yield* slipway(["api", "GET", `sandboxes/${id}`, "--include"])
      assert.match(got.stdout, /^HTTP 200\n[^]*content-type: application\/json[^]*\n\n\{/u)
      const body = JSON.stringify({ prompt: "[[say Again.]]", repos: [{ fullName: "acme/shop" }] })
      const once = ["api", "POST", "/sandboxes", "--input", "-", "--header", "Idempotency-Key: by-hand-1"]
      const [first, again] = [yield* slipway(once, {}, body), yield* slipway(once, {}, body)]
      assert.strictEqual(JSON.parse(first.stdout).id, JSON.parse(again.stdout).id)
      const listed = yield* slipway(["api", "GET", "/sandboxes", "--paginate", "-f", "limit=1"])
      const ids = listed.stdout.trim().split("\n").map((line) => JSON.parse(line).id)
      assert.includeMembers(ids, [id, JSON.parse(first.stdout).id])
      assert.strictEqual(new Set(ids).size, ids.length)

      const refused: ReadonlyArray<readonly [code: number, args: ReadonlyArray<string>, says: RegExp, prints: RegExp]> = [
        [4, ["POST", "/sandboxes", "-f", "prompt=x"], /answered 400/u, /"code":"/u],
        [5, ["GET", "/sandboxes/c_abcdefgh2345"], /answered 404/u, /"code":"not_found"/u],
        [2, ["GET", "/api/../../sandboxes"], /not a path of the API/u, /^$/u],
        [2, ["POST", "/sandboxes", "-f", "=x"], /as NAME=VALUE/u, /^$/u],
        [2, ["GET", "/sandboxes", "-H", "no colon"], /as NAME:VALUE/u, /^$/u],
        [1, ["TRACE", "/sandboxes"], /is not one of/u, /^/u]
      ]
      for (const [code, args, says, prints] of refused) {
        const { code: ended, stderr, stdout } = yield* slipway(["api", ...args])
        assert.deepStrictEqual([ended, says.test(stderr), prints.test(stdout)], [code, true, true], `${args.join(" ")} ${stdout}${stderr}`)
        assert.notInclude(stdout + stderr, key)
      }
    }), LONG)

  it.effect("finds a key that is kept for the server", () =>
    Effect.gen(function*() {
      const { data, settings } = yield* Service
      const { SLIPWAY_API_KEY: key = "", SLIPWAY_URL: url = "" } = settings
      const folder = path.join(data, "kept/slipway")
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      writeFileSync(path.join(folder, "credentials.json"), JSON.stringify({ servers: { [url]: { key } } }), { mode: 0o600 })
      const found = yield* slipway(["ps", "--json"], {
        XDG_CONFIG_HOME: path.join(data, "kept"),
        SLIPWAY_API_KEY: undefined,
        SLIPWAY_URL: `${url}/`
      })
      assert.deepStrictEqual([found.code, found.stderr], [0, ""])
    }), LONG)
})
