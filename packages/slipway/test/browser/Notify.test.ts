/** A person who looks elsewhere learns that something waits: by the title and, if they asked for it, by a notification. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { BrowserContext, Page } from "playwright-core"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

/** In the place of the browser's own, which a test cannot see: keeps what people are asked and told. */
const watchNotifications = async (context: BrowserContext) => {
  await context.addInitScript(() => {
    const told: Array<string> = []
    class Told extends EventTarget {
      static get permission() {
        return localStorage.getItem("test:permission") ?? "default"
      }
      static requestPermission = () => {
        localStorage.setItem("test:asked", String(Number(localStorage.getItem("test:asked") ?? "0") + 1))
        localStorage.setItem("test:permission", "granted")
        return Promise.resolve("granted")
      }
      constructor(title: string, { body }: { readonly body: string }) {
        super()
        told.push(`${title}: ${body}`)
      }
    }
    Object.assign(globalThis, { Notification: Told, told })
  })
}

const told = (page: Page) => page.evaluate(() => Reflect.get(globalThis, "told") as ReadonlyArray<string>)
const toldOf = (page: Page, count: number) =>
  page.waitForFunction((count) => (Reflect.get(globalThis, "told") as ReadonlyArray<string>).length >= count, count)
const asked = (page: Page) => page.evaluate(() => Number(localStorage.getItem("test:asked") ?? "0"))
const titleBegins = (page: Page, text: string) => page.waitForFunction((text) => document.title.startsWith(text), text)

/** As if somebody turned to another tab, or back. */
const turn = (page: Page, to: "hidden" | "visible") =>
  page.evaluate((to) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => to })
    document.dispatchEvent(new Event("visibilitychange"))
  }, to)

const button = (page: Page) => page.getByRole("button", { name: "Notify me" })

const LONGER_THAN_A_LOOK = 31_000

layer(Shop.layer(), { excludeTestServices: true })("what waits for a person", (it) => {
  it.effect("is told on the page of its sandbox as the stream brings it, once somebody asked for it, which is asked for once", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, send } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page, context) => {
        await watchNotifications(context)
        await signIn(page, link)
        const id = await create("[[say Begun]]", { title: "<b>Asks</b>", ...Shop.ASKS })
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        await Shop.openMenu(page)
        assert.strictEqual(await button(page).getAttribute("aria-pressed"), "false")
        assert.strictEqual(await asked(page), 0)
        // Notifications are not enabled yet: the title alone says it.
        await send(id, "[[write path=a.md content=a]]")
        await titleBegins(page, "(1) <b>Asks</b>")
        assert.deepStrictEqual(await told(page), [])
        await page.locator(".approval button[value=approve]").click()
        await titleBegins(page, "<b>Asks</b>")
        await Shop.turnIs(page, "Done")

        await Shop.openMenu(page)
        await button(page).click()
        assert.deepStrictEqual([await button(page).getAttribute("aria-pressed"), await asked(page)], ["true", 1])
        await inspect(page, "sandbox-notify")
        await send(id, "[[write path=b.md content=b]] [[write path=c.md content=c]]")
        await toldOf(page, 1)
        await titleBegins(page, "(1) ")
        await page.locator(".approval", { hasText: "b.md" }).locator("button[value=approve]").click()
        // The next one is told of, too.
        await toldOf(page, 2)
        assert.deepStrictEqual(await told(page), Array.from({ length: 2 }, () => "A sandbox needs you: <b>Asks</b>"))
        await page.locator(".approval", { hasText: "c.md" }).locator("button[value=approve]").click()
        await titleBegins(page, "<b>Asks</b>")

        // The choice holds on the next page, and is taken back there.
        await page.goto("/sandboxes")
        assert.strictEqual(await button(page).getAttribute("aria-pressed"), "true")
        await button(page).click()
        assert.deepStrictEqual([await button(page).getAttribute("aria-pressed"), await asked(page)], ["false", 1])
      })
    }))

  it.effect("is told on every watched page, of other sandboxes and while the page is hidden, too", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, send, terminate } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page, context) => {
        await watchNotifications(context)
        await page.clock.install()
        await signIn(page, link)
        const id = await create("[[say Begun]]", { title: "Looked at", ...Shop.ASKS })
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        await Shop.openMenu(page)
        await button(page).click()
        // The stream of a hidden page pauses.
        await turn(page, "hidden")
        await Shop.connection(page, "Paused")
        const other = await create("[[write path=a.md content=a]]", { title: "Elsewhere", ...Shop.ASKS })
        const watcher = await context.newPage()
        await watcher.goto(`/sandboxes/${other}`)
        await watcher.locator(".approval").waitFor()
        await watcher.close()
        await page.clock.fastForward(LONGER_THAN_A_LOOK)
        await toldOf(page, 1)
        await titleBegins(page, "(1) ")
        assert.deepStrictEqual(await told(page), ["A sandbox needs you: Elsewhere"])
        await turn(page, "visible")
        await Shop.connection(page, "Live")
        await send(id, "[[write path=b.md content=b]]")
        await titleBegins(page, "(2) ")
        await terminate(other)
        await terminate(id)

        for (const place of ["/sandboxes", "/pulls"]) {
          await page.goto(place)
          await page.waitForFunction(() => !document.title.startsWith("("))
          const asks = await create("[[write path=a.md content=a]]", { title: `On ${place}`, ...Shop.ASKS })
          await toldOf(page, 1)
          assert.deepStrictEqual(await told(page), [`A sandbox needs you: On ${place}`])
          await titleBegins(page, "(1) ")
          await terminate(asks)
          await page.waitForFunction(() => !document.title.startsWith("("))
        }
      })
    }))

  it.effect("is on the page without scripts, which offers no notification", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[write path=a.md content=a]]", { title: "Asks", ...Shop.ASKS })
        await Shop.loadsUntil(page, `/sandboxes/${id}`, "Needs your approval")
        assert.strictEqual(await button(page).count(), 0)
      }, { options: { javaScriptEnabled: false } })
    }))
})
