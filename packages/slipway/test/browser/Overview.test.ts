import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

layer(Shop.layer(["acme/shop"], { SLIPWAY_WORKER_SLOTS: "4" }), { excludeTestServices: true })("the overview", (it) => {
  it.effect("shows what begins to wait, takes a decision by a key, and draws what the last weeks cost", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, terminate } = yield* Shop.api
      const sql = yield* SqlClient.SqlClient
      const link = yield* linkFor()
      const run = Effect.runPromiseWith(yield* Effect.context<never>())
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/overview")
        await page.getByText("Nothing waits for you.").waitFor()
        await inspect(page, "overview-empty")
        await create("[[write path=a.md content=a]]", { title: "<b>Asks</b>", ...Shop.ASKS })
        await page.locator(".approval", { hasText: "a.md" }).waitFor()
        const works = await create("[[hang]]", { title: "Works", ...Shop.ASKS })
        await page.getByRole("row").filter({ hasText: "Works" }).waitFor()
        await run(sql`
          UPDATE sandboxes SET usage = jsonb_set(usage, '{costMicroUsd}', '1500000'), created_at = created_at - interval '3 days'
          WHERE title = 'Works'`)
        await page.goto("/usage")
        await page.getByText("Cost by day, as a table").click()
        await inspect(page, "usage")
        await page.goto("/overview")
        await inspect(page, "overview")
        // Neither without a focus nor with that of the sandbox: only the card's own counts.
        const decided: Array<string> = []
        page.on("request", (request) => request.method() === "POST" && decided.push(request.url()))
        const title = page.getByRole("link", { name: "<b>Asks</b>" })
        const card = page.locator(".approval", { hasText: "a.md" })
        await page.evaluate(() => document.activeElement instanceof HTMLElement && document.activeElement.blur())
        await page.keyboard.press("a")
        await title.focus()
        await page.keyboard.press("a")
        await page.keyboard.press("j")
        assert.isTrue(await card.evaluate((one) => one === document.activeElement))
        // Nor when a part of it is scrolled away, above or below: the key brings it back, and the next one decides.
        for (const edge of [0.5, -0.5]) {
          await card.evaluate((one, edge) => {
            document.body.style.minHeight = "300vh"
            document.body.style.paddingTop = "100vh"
            const { bottom, top } = one.getBoundingClientRect()
            scrollBy(0, edge > 0 ? top + (bottom - top) * edge : bottom + (bottom - top) * edge - innerHeight)
          }, edge)
          await page.keyboard.press("a")
          assert.isTrue(
            await card.evaluate((one) => {
              const { bottom, top } = one.getBoundingClientRect()
              return top >= -1 && bottom <= innerHeight + 1
            })
          )
        }
        // Nor when a part of the change is scrolled away within the card.
        const box = card.locator(".diff-box")
        await box.evaluate((one) => {
          if (one instanceof HTMLElement) one.style.maxHeight = "10px"
        })
        await page.keyboard.press("a")
        await box.evaluate((one) => {
          if (one instanceof HTMLElement) one.style.maxHeight = ""
        })
        assert.deepStrictEqual(decided, [])
        await page.keyboard.press("a")
        await page.waitForURL("**/overview?done=approved")
        assert.strictEqual(decided.length, 1)
        await page.getByText("Nothing waits for you.").waitFor()
        await terminate(works)
      })
    }))

  it.effect("tells a stranger what this is, and brings an owner to what waits; who waits for a worker sees where in line", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, terminate } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await page.goto("/")
        await inspect(page, "welcome")
        await page.getByRole("link", { name: "Sign in" }).click()
        await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor()
        await signIn(page, link)
        await page.waitForURL("**/overview")
        await page.goto("/usage")
        await page.getByText(/\d+ of 4 at work, in all organizations together\./u).waitFor()
        await page.getByRole("row").filter({ hasText: "Accepting work" }).waitFor()
        await page.goto("/overview")
        const filling = []
        for (const n of [1, 2, 3, 4]) filling.push(await create("[[hang]]", { title: `Fills ${n}` }))
        const last = await create("[[say At last.]]", { title: "Waits" })
        await page.getByRole("row").filter({ hasText: "Waits" }).getByText(/^1st, 4 of 4 at work$/u).waitFor()
        await inspect(page, "overview-full")
        await page.goto(`/sandboxes/${last}`)
        await page.locator("#line", { hasText: "1st, 4 of 4 at work" }).waitFor()
        await inspect(page, "sandbox-queued")
        // Its place is told again without anything happening in its log.
        const other = await create("[[say Later.]]", { title: "Behind" })
        await page.goto(`/sandboxes/${other}`)
        await page.locator("#line", { hasText: "2nd, 4 of 4 at work" }).waitFor()
        await terminate(last)
        await page.locator("#line", { hasText: "1st, 4 of 4 at work" }).waitFor()

        await page.goto("/overview")
        await page.keyboard.press("/")
        await page.keyboard.type("fills 3")
        await page.keyboard.press("Enter")
        await page.waitForURL("**/overview?search=fills+3&repo=")
        await page.getByRole("row").filter({ hasText: "Fills 3" }).waitFor()
        assert.strictEqual(await page.getByRole("row").filter({ hasText: "Fills" }).count(), 1)
        for (const id of [other, ...filling]) await terminate(id)
      })
    }))

  it.effect("takes decisions without scripts", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await create("[[write path=d.md content=d]]", { title: "Denied", ...Shop.ASKS })
        const card = page.locator(".approval", { hasText: "d.md" })
        for (;;) {
          await page.goto("/")
          if (await card.count() > 0) break
        }
        assert.match(page.url(), /\/overview$/u)
        await card.getByRole("button", { name: "Deny" }).click()
        await page.getByText("Denied.", { exact: true }).waitFor()
        assert.strictEqual(await card.count(), 0)
      }, { options: { javaScriptEnabled: false } })
    }))
})
