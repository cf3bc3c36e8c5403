/** Commands in the message box: what a message that is one does, and which texts are sent to the agent. */
import { assert, layer } from "@effect/vitest"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { queuedOf } from "@slipway/domain/sandbox/rules/MessageQueue"
import { checkpointed } from "@slipway/http/testing/Checkpointed"
import { Effect } from "effect"
import { type Fields, redirected, textOf, visitor } from "../../../testing/Browser.ts"
import { drive, layer as http, running } from "../../../testing/Harness.ts"

const textAt = Effect.fnUntraced(function*(grantId: string, id: Effect.Success<ReturnType<typeof running>>["id"]) {
  return queuedOf(yield* (yield* SandboxStore).find({ grantId, id })).map(({ text }) => text)
})

layer(http(), { excludeTestServices: true })("a message that is exactly a command", (it) => {
  it.effect("stops the agent, or leads to the form of a fork from the last checkpoint, and is not sent", () =>
    Effect.gen(function*() {
      const { get, grantId, key, post } = yield* visitor("typist")
      const { id, turn } = yield* running(key)
      const send = (prompt: string, more: Fields = {}) => post(`/sandboxes/${id}/messages`, { prompt, whenBusy: "queue", ...more })
      const early = yield* send("/fork")
      assert.strictEqual(early.status, 409)
      assert.include(textOf(early), "There is no checkpoint to fork from yet.")
      redirected(yield* send(" /stop\r\n"), `/sandboxes/${id}?done=interrupted`)
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "interrupted" }])
      redirected(yield* send("/stop"), `/sandboxes/${id}?done=duplicate`)
      const { id: other } = yield* checkpointed(key)
      const fork = (more: Fields = {}) => post(`/sandboxes/${other}/messages`, { prompt: "/fork", ...more })
      redirected(yield* fork(), `/sandboxes/${other}/fork?checkpoint=2`)
      const led = yield* fork({ live: "yes" })
      assert.strictEqual(led.status, 200)
      assert.include(led.text, `<p class="told"><a href="/sandboxes/${other}/fork?checkpoint=2" data-leads>Fork from checkpoint 2</a></p>`)
      assert.deepStrictEqual(yield* textAt(grantId, id), [])
      assert.strictEqual((yield* send("/stop", { csrf: "guessed" })).status, 403)
      const page = (yield* get(`/sandboxes/${id}`)).text
      assert.deepStrictEqual([...page.matchAll(/role="option" data-text="(\/\w+)"/gu)].map(([, name]) => name), ["/publish", "/stop",
        "/fork"])
      const stranger = yield* visitor("stranger")
      for (const prompt of ["/stop", "/fork", "/publish"]) {
        assert.strictEqual((yield* stranger.post(`/sandboxes/${id}/messages`, { prompt })).status, 404, prompt)
      }
    }))

  it.effect("publishes nothing of several repositories, but leads to where one is chosen", () =>
    Effect.gen(function*() {
      const { key, post } = yield* visitor("publisher")
      const { id } = yield* running(key, { repos: [{ fullName: "acme/shop" }, { fullName: "acme/docs" }] })
      redirected(yield* post(`/sandboxes/${id}/messages`, { prompt: "/publish" }), `/sandboxes/${id}?view=pull`)
    }))
})

layer(http(), { excludeTestServices: true })("any other message", (it) => {
  it.effect("is sent as it is, with a hint where it looks like a mistyped command", () =>
    Effect.gen(function*() {
      const { get, grantId, key, post } = yield* visitor("writer")
      const { id } = yield* running(key)
      const sent = [
        ["/pubish", "like_publish"],
        ["/STOP", "like_stop"],
        ["/stop.", "like_stop"],
        ["/forks", "like_fork"],
        ["/review", "queued"],
        ["/publish now", "queued"],
        ["please /stop", "queued"],
        ["/usr/bin/stop", "queued"],
        ["/", "queued"]
      ] as const
      for (const [prompt, done] of sent) {
        redirected(yield* post(`/sandboxes/${id}/messages`, { prompt, whenBusy: "queue" }), `/sandboxes/${id}?done=${done}`)
      }
      assert.deepStrictEqual(yield* textAt(grantId, id), sent.map(([prompt]) => prompt))
      assert.include(textOf(yield* get(`/sandboxes/${id}?done=like_publish`)), "Sent to the agent. To publish, send /publish alone.")
    }))
})
