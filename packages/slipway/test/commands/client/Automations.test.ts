import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import path from "node:path"
import { Webhook } from "standardwebhooks"
import { folder, run, serve } from "../SlipwayProcess.ts"

/** Each command is a process, which takes its time on a busy machine. */
const LONG = 900_000

/** A service with a repository, and the command with a key for its automations. */
const service = Effect.gen(function*() {
  const data = yield* folder
  const shop = path.join(data, "shop")
  const git = (...args: ReadonlyArray<string>) => execFileSync("git", args, { stdio: "pipe" })
  git("init", "--quiet", "--initial-branch=main", shop)
  git("-C", shop, "-c", "user.name=Ada", "-c", "user.email=ada@acme.invalid", "commit", "--quiet", "--allow-empty", "-m", "First")
  const server = yield* serve(data)
  const added = yield* run(data, ["repos", "add", "acme/shop", shop])
  assert.deepStrictEqual([added.code, added.stderr], [0, ""])
  const made = yield* run(data, ["keys", "create", "--grant", "default", "--label", "automations", "--scopes", "automations", "--json"])
  const { key } = JSON.parse(made.stdout)
  const slipway = (...args: ReadonlyArray<string>) => run(data, ["automations", ...args], { SLIPWAY_URL: server.url, SLIPWAY_API_KEY: key })
  const told = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
    const { code, stderr, stdout } = yield* slipway(...args)
    assert.deepStrictEqual([code, stderr], [0, ""], args.join(" "))
    return stdout
  })
  const read = (...args: ReadonlyArray<string>) => Effect.map(told(...args, "--json"), (text) => JSON.parse(text))
  return { slipway, told, read, url: server.url }
})

const task = ["--repo", "acme/shop", "--prompt", "Do it."]

describe("slipway automations", () => {
  it.live(
    "makes, shows, runs, disables and removes them, while the service runs; a signed request starts one too",
    () =>
      Effect.gen(function*() {
        const { read, slipway, told, url } = yield* service
        assert.strictEqual(yield* told("list"), "No automations. Make one with: slipway automations add\n")
        const weekly = yield* read(
          "add",
          "Weekly",
          "--cron",
          "0 7 * * 1",
          "--time-zone",
          "Europe/Berlin",
          ...task,
          "--max-per-day",
          "2",
          "--max-running",
          "3"
        )
        assert.deepInclude(weekly, { name: "Weekly", state: "enabled", maxPerDay: 2, secret: null })
        const hook = yield* read("add", "Hook", "--webhook", "--repo", "acme/shop@main", "--prompt", "Fix {{payload.title}}.")
        assert.include(yield* told("list"), "0 7 * * 1 Europe/Berlin")
        assert.include(yield* told("show", hook.id), hook.url)
        assert.notInclude(yield* told("show", hook.id), hook.secret)

        const [id, at, body] = ["msg_1", new Date(), JSON.stringify({ title: "the build" })]
        const answer = yield* Effect.promise(async () => {
          const response = await fetch(`${url}/api/internal/v1/automations/${hook.id}/trigger`, {
            method: "POST",
            body,
            headers: {
              "content-type": "application/json",
              "webhook-id": id,
              "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
              "webhook-signature": new Webhook(hook.secret).sign(id, at, body)
            }
          })
          return await response.json() as { readonly outcome: string; readonly sandboxId: string }
        })
        assert.strictEqual(answer.outcome, "started")
        assert.include(yield* told("runs", hook.id), answer.sandboxId)

        const started = yield* read("run", weekly.id)
        assert.strictEqual(started.outcome, "started")
        assert.strictEqual((yield* read("run", weekly.id)).outcome, "started")
        assert.include(yield* told("run", weekly.id), "The run did not start. skipped: limit of a day")
        assert.include(yield* told("disable", weekly.id), "starts no runs until it is enabled")
        assert.include(yield* told("enable", weekly.id), "Its next run is at")
        const rotated = yield* told("rotate", hook.id)
        assert.match(rotated, /^whsec_/u)

        const unclear = yield* slipway("add", "Two", "--webhook", "--mention", ...task)
        assert.include(unclear.stderr, "give one of --cron, --webhook, --mention and --label.")
        const refused = yield* slipway("add", "Odd", "--mention", "--repo", "acme/shop", "--prompt", "{{payload.a}}")
        assert.notStrictEqual(refused.code, 0)
        assert.include(refused.stderr, "unknown placeholder {{payload.a}}")
        const absent = yield* slipway("show", "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff")
        assert.deepStrictEqual([absent.code, absent.stdout], [5, ""])

        yield* told("remove", weekly.id)
        assert.deepStrictEqual((yield* read("list")).map(({ name }: { readonly name: string }) => name), ["Hook"])
      }),
    LONG
  )

  it.live(
    "takes every flag, shows what was chosen, and refuses values out of bounds",
    () =>
      Effect.gen(function*() {
        const { read, slipway, told } = yield* service
        const labelled = yield* read(
          "add",
          "Labelled",
          "--label",
          "slip way",
          "--model",
          "offline/demo",
          "--effort",
          "high",
          "--comments",
          "mention",
          "--checks",
          "failing",
          "--approvals",
          ...task
        )
        assert.deepInclude(labelled, {
          trigger: { type: "label", label: "slip way" },
          model: "offline/demo",
          reasoningEffort: "high",
          toolApprovalMode: "prompt",
          maxRunning: 1,
          maxPerDay: 20,
          nextRunAt: null,
          url: null
        })
        assert.deepInclude(labelled.feedback, { comments: "mention", checks: "failing" })
        const shown = yield* told("show", labelled.id)
        for (const text of ["label slip way", "offline/demo", "comments mention, checks failing", "1 at once, 20 a day"]) {
          assert.include(shown, text)
        }
        const mention = yield* read("add", "Mention", "--mention", "--repo", "acme/shop", "--prompt", "{{comment.body}}")
        assert.deepInclude(mention, { trigger: { type: "mention" }, toolApprovalMode: "auto" })
        for (
          const [flags, why] of [
            [["--max-running", "21"], "--max-running is 1 to 20"],
            [["--max-per-day", "0"], "--max-per-day is 1 to 200"],
            [["--effort", "none at all"], "effort"],
            [["--model", "offline/none"], "model"],
            [["--comments", "some"], "comments"]
          ] as const
        ) {
          const wrong = yield* slipway("add", "Wrong", "--webhook", ...task, ...flags)
          assert.notStrictEqual(wrong.code, 0, flags.join(" "))
          assert.include(wrong.stderr + wrong.stdout, why)
        }
        const zone = yield* slipway("add", "Wrong", "--cron", "0 7 * * *", "--time-zone", "Nowhere/City", ...task)
        assert.notStrictEqual(zone.code, 0)
        assert.include(zone.stderr, "a time zone")
        assert.lengthOf(yield* read("list"), 2)
      }),
    LONG
  )
})
