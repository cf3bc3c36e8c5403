/** A sandbox that is created as one before it was: by the same key, with the same words, of the same repository. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { serve, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"
import * as World from "./World.ts"

/** Leaves something wherever an agent can, and says what it found of what somebody left. */
const LEAVE = [
  "cat left.txt ~/left.txt /tmp/left.txt 2>/dev/null > found.txt",
  "git config --get slipway.left >> found.txt",
  "git log --oneline | wc -l >> found.txt",
  "cat deps/a >> found.txt",
  "echo left > left.txt; echo left > ~/left.txt; echo left > /tmp/left.txt; echo left > deps/a",
  "git config slipway.left left",
  "git -c user.name=A -c user.email=a@example.com commit --quiet --allow-empty -m left",
  "(setsid sleep 86399 > /dev/null 2>&1 &)"
].join("; ")

it.live(
  "a sandbox made again: with the key, the repository and the words of an earlier one it has nothing of what that left",
  () =>
    Effect.gen(function*() {
      const { data, databaseUrl, shop } = yield* World.place
      mkdirSync(path.join(shop, ".slipway"))
      writeFileSync(
        path.join(shop, ".slipway/environment.json"),
        JSON.stringify({ setup: ["mkdir -p deps && echo clean > deps/a"], cache: ["deps"] })
      )
      writeFileSync(path.join(shop, ".gitignore"), "deps\n")
      execFileSync("git", ["-C", shop, "add", "--all"])
      execFileSync("git", ["-C", shop, "-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", "commit", "--quiet", "--message",
        "Set up"])
      const isolation = { SLIPWAY_ISOLATION: World.hasBoxes ? "bubblewrap" : "none" }
      const server = yield* serve(data, { DATABASE_URL: databaseUrl, ...isolation })
      const api = Api.make(server)
      const create = Effect.promise(async () => {
        const reply = await fetch(`${server.url}/api/public/v1/sandboxes`, {
          method: "POST",
          headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json", "idempotency-key": "the same" },
          body: JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt: `[[shell ${LEAVE}]]` })
        })
        const { id }: { readonly id: string } = await reply.json() as { readonly id: string }
        return { status: reply.status, id }
      })
      const sleepers = Effect.sync(() => World.treeOf(server.pid).filter((pid) => World.commandOf(pid).includes("sleep 86399")).length)

      const first = yield* create
      yield* api.event(first.id, "sandbox.checkpoint")
      yield* api.publish(first.id)
      const published = yield* until(api.pull(first.id), ({ actionState }) => actionState === "idle")
      assert.deepStrictEqual(yield* create, { status: 200, id: first.id })
      yield* api.terminate(first.id)
      yield* until(api.status(first.id), (status) => status === "terminated")
      // Bound for as long as keys are kept, whatever became of it.
      assert.deepStrictEqual(yield* create, { status: 200, id: first.id })
      assert.strictEqual(yield* sleepers, 0)
      yield* World.query(databaseUrl, "UPDATE idempotency_keys SET created_at = created_at - interval '31 days'")

      const again = yield* create
      assert.strictEqual(again.status, 201)
      assert.notStrictEqual(again.id, first.id)
      yield* api.event(again.id, "sandbox.checkpoint")
      // Two commits and what the setup made: what the first one found, too.
      assert.strictEqual(yield* api.file(again.id, "found.txt"), "2\nclean\n")
      assert.strictEqual((yield* api.pull(again.id)).pullRequest, null)
      const events = yield* api.log(again.id)
      assert.deepStrictEqual(events.map((event) => Number(event.id)), events.map((_, i) => i + 1))
      assert.deepStrictEqual(World.ofType(events, "sandbox.checkpoint").map(({ checkpoint }) => checkpoint), [1])
      yield* api.publish(again.id)
      const { pullRequest } = yield* until(api.pull(again.id), ({ actionState }) => actionState === "idle")
      assert.notStrictEqual(pullRequest?.number, published.pullRequest?.number)
      const branches = execFileSync("git", ["-C", shop, "for-each-ref", "--format=%(refname:short)", "refs/heads/slipway"], {
        encoding: "utf8"
      })
      assert.sameMembers(branches.trim().split("\n"), [`slipway/${first.id}`, `slipway/${again.id}`])
    }).pipe(Effect.scoped)
)
