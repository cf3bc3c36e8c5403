/** A viewer sees pages, and changes nothing by any form. */
import { assert, layer } from "@effect/vitest"
import { IdentityProviders } from "@slipway/domain/access/ports/IdentityProvider"
import { Routes } from "@slipway/http/server/Routes"
import { Effect, Layer } from "effect"
import { visitorIn } from "../testing/Browser.ts"
import { layer as http } from "../testing/Harness.ts"

/** Forms about a person's own: sessions, the choice of the grant, keys that only read, and the sign-in of a command. */
const OWN = ["/device", "/grant", "/keys", "/keys/:id/revoke", "/sign-in", "/sign-out", "/sign-out/everywhere"]

layer(http().pipe(Layer.provide(Layer.succeed(IdentityProviders, []))), { excludeTestServices: true })("a viewer", (it) => {
  it.effect("is refused by every form that changes something of the grant", () =>
    Effect.gen(function*() {
      const viewer = yield* visitorIn("lookout", "viewer")
      const forms = (yield* Routes).all().filter(({ area, methods }) => area === "pages" && methods.includes("POST"))
        .map(({ pattern }) => pattern)
      assert.includeMembers(forms, [...OWN, "/new", "/sandboxes/:sandboxId/messages", "/sandboxes/:sandboxId/approvals/:approvalId",
        "/sandboxes/:sandboxId/questions/:questionId", "/sandboxes/:sandboxId/pull-request", "/repositories", "/members", "/secrets"])
      for (const pattern of forms.filter((pattern) => !OWN.includes(pattern))) {
        const { status, text } = yield* viewer.post(pattern.replaceAll(/:\w+/gu, "x"), {})
        assert.strictEqual(status, 403, pattern)
        assert.include(text, "Viewers change nothing", pattern)
      }
    }))

  it.effect("sees the pages of members without their forms, and mints a key", () =>
    Effect.gen(function*() {
      const viewer = yield* visitorIn("tower", "viewer")
      for (const path of ["/sandboxes", "/pulls", "/settings", "/keys", "/members", "/repositories"]) {
        const { status, text } = yield* viewer.get(path)
        assert.strictEqual(status, 200, path)
        assert.include(text, "<body class=\"viewer\">", path)
      }
      for (const path of ["/secrets", "/models", "/audit", "/usage"]) assert.strictEqual((yield* viewer.get(path)).status, 403, path)
      const minted = yield* viewer.post("/keys", { name: "laptop", scope: "sandboxes", expires: "90" })
      assert.strictEqual(minted.status, 200)
      assert.notInclude((yield* (yield* visitorIn("bridge", "member")).get("/sandboxes")).text, "class=\"viewer\"")
    }))
})
