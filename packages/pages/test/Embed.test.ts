/** The pages within the server of somebody else. */
import { assert, it } from "@effect/vitest"
import * as Embed from "@slipway/http/Embed"
import { Effect } from "effect"
import { pages } from "../src/Pages.ts"
import { given, services } from "../testing/Harness.ts"

it.live("a page lies beneath the path of the service, and its links lead there", () =>
  Effect.scoped(Effect.gen(function*() {
    const slipway = yield* Effect.acquireRelease(
      Effect.promise(() => Embed.make(services(), { ...given, publicUrl: "https://slipway.test/tools/slipway" }, pages)),
      (slipway) => Effect.promise(() => slipway.close())
    )
    const ask = (path: string) =>
      Effect.promise(() => slipway.fetch(new Request(new URL(path, "https://slipway.test"), { headers: { accept: "text/html" } })))
    const page = yield* ask("/tools/slipway/sign-in")
    const text = yield* Effect.promise(() => page.text())
    assert.strictEqual(page.status, 200, text)
    const links = Array.from(text.matchAll(/ (?:href|src|action)="(\/[^"]*)"/gu), ([, address = ""]) => address)
    assert.isAbove(links.length, 2)
    for (const link of links) assert.isTrue(link.startsWith("/tools/slipway/"), link)
    const script = links.find((link) => link.endsWith(".js")) ?? ""
    assert.strictEqual((yield* ask(script)).status, 200, script)
    const away = yield* ask("/tools/slipway/sandboxes")
    assert.deepStrictEqual([away.status, away.headers.get("location")], [303, "/tools/slipway/sign-in?next=%2Fsandboxes"])
  })))
