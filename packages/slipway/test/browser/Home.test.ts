/** The first page of somebody who is signed in: the form of a new sandbox and the sandboxes by state. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

layer(Shop.layer(["acme/shop"], { SLIPWAY_WORKER_SLOTS: "4" }), { excludeTestServices: true })("the first page", (it) => {
  it.effect("shows what begins to wait, and takes a decision by a key only for a row that has the focus and is wholly seen", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, terminate } = yield* Shop.api
      const sql = yield* SqlClient.SqlClient
      const link = yield* linkFor()
      const run = Effect.runPromiseWith(yield* Effect.context<never>())
      yield* visit(async (page) => {
        await signIn(page, link)
        await inspect(page, "home-empty")
        await create("[[shell echo one]]", { title: "<b>Asks</b>", ...Shop.ASKS })
        const row = page.getByRole("row").filter({ hasText: "<b>Asks</b>" })
        const form = row.locator(".approval", { hasText: "$ echo one" })
        await form.waitFor()
        const works = await create("[[hang]]", { title: "Works", ...Shop.ASKS })
        await page.getByRole("row").filter({ hasText: "Works" }).waitFor()
        await page.getByRole("navigation", { name: "States" }).getByRole("link", { name: "Needs you 1" }).waitFor()
        await run(sql`
          UPDATE sandboxes SET usage = jsonb_set(usage, '{costMicroUsd}', '1500000'), created_at = created_at - interval '3 days'
          WHERE title = 'Works'`)
        await page.goto("/usage")
        await page.getByText("Cost by day, as a table").click()
        await page.getByRole("row").filter({ hasText: "Accepting work" }).waitFor()
        await inspect(page, "usage")
        await page.goto("/sandboxes")
        await inspect(page, "home")
        // Neither without a focus nor with that of the sandbox: only the form's own counts.
        const decided: Array<string> = []
        page.on("request", (request) => request.method() === "POST" && decided.push(request.url()))
        await page.evaluate(() => document.activeElement instanceof HTMLElement && document.activeElement.blur())
        await page.keyboard.press("a")
        await row.getByRole("link", { name: "<b>Asks</b>" }).focus()
        await page.keyboard.press("a")
        await page.keyboard.press("j")
        assert.isTrue(await form.evaluate((one) => one === document.activeElement))
        // Nor when a part of it is scrolled away: the key brings it back, and the next one decides.
        await form.evaluate((one) => {
          document.body.style.minHeight = "300vh"
          document.body.style.paddingTop = "100vh"
          scrollBy(0, one.getBoundingClientRect().bottom - 4)
        })
        await page.keyboard.press("a")
        assert.deepStrictEqual(decided, [])
        await page.keyboard.press("a")
        await page.waitForURL("**/sandboxes?done=approved")
        assert.strictEqual(decided.length, 1)
        await page.getByText("Approved.", { exact: true }).waitFor()
        await terminate(works)
      })
    }))

  it.effect("tells a stranger what this is, and shows who waits for a worker where in line they are", () =>
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
        await page.waitForURL("**/sandboxes")
        const filling = []
        for (const n of [1, 2, 3, 4]) filling.push(await create("[[hang]]", { title: `Fills ${n}` }))
        const last = await create("[[say At last.]]", { title: "Waits" })
        await page.getByRole("row").filter({ hasText: "Waits" }).getByText(/^1st, 4 of 4 slots busy$/u).waitFor()
        await inspect(page, "home-full")
        await page.goto(`/sandboxes/${last}`)
        await page.locator("#line", { hasText: "1st, 4 of 4 slots busy" }).waitFor()
        await inspect(page, "sandbox-queued")
        // Its place is told again without anything happening in its log.
        const other = await create("[[say Later.]]", { title: "Behind" })
        await page.goto(`/sandboxes/${other}`)
        await page.locator("#line", { hasText: "2nd, 4 of 4 slots busy" }).waitFor()
        await terminate(last)
        await page.locator("#line", { hasText: "1st, 4 of 4 slots busy" }).waitFor()

        await page.goto("/sandboxes")
        await page.keyboard.press("/")
        await page.keyboard.type("fills 3")
        await page.keyboard.press("Enter")
        await page.waitForURL("**/sandboxes?search=fills+3&repo=")
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
        await create("[[shell echo no]]", { title: "Denied", ...Shop.ASKS })
        const form = page.locator(".approval", { hasText: "echo no" })
        for (;;) {
          await page.goto("/")
          if (await form.count() > 0) break
        }
        await form.getByRole("button", { name: "Deny" }).click()
        await page.getByText("Denied.", { exact: true }).waitFor()
        assert.strictEqual(await form.count(), 0)
      }, { options: { javaScriptEnabled: false } })
    }))
})
