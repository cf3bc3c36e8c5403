/** The terminal of a sandbox in a browser: it works, and what a program writes there stays a picture. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import type { Page } from "playwright-core"
import { Browser, inspect, inspectFrame, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const hasScript = spawnSync("script", ["--version"]).stdout?.toString().includes("util-linux") === true
const NEEDS = "(needs script: util-linux)"

const screen = (page: Page) => page.frameLocator("#terminal").locator("#screen")
/** The text of the terminal, as screen readers get it. */
const shows = (page: Page, text: string) =>
  screen(page).locator(".xterm-accessibility-tree", { hasText: text }).waitFor({ state: "attached" })
const state = (page: Page, text: string) => page.locator("#terminal-state", { hasText: text }).waitFor()
const type = async (page: Page, keys: string) => {
  await screen(page).click()
  await page.keyboard.type(keys)
  await page.keyboard.press("Enter")
}

layer(Shop.layer(), { excludeTestServices: true })("the terminal", (it) => {
  const real = hasScript ? it.effect : it.effect.skip

  real(`runs a shell, finds it again, and shows what programs write without obeying it ${NEEDS}`, () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Ready.]]")
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        await page.getByRole("navigation", { name: "Parts of this page" }).getByRole("link", { name: "Terminal" }).click()
        await state(page, "Connected")
        await type(page, "echo it is $((40 + 2)) in $(basename $PWD)")
        await shows(page, "it is 42 in")
        await inspect(page, "terminal")
        const inFrame = page.frames().find((frame) => frame.url().endsWith("/terminal/frame"))
        if (inFrame === undefined) return assert.fail("there is no frame")
        assert.strictEqual(await inFrame.evaluate("origin"), "null")
        await inspectFrame(page, inFrame)

        // Title, clipboard, colours, device attributes, status of the device, size and settings: nothing of it comes back as keys.
        const hostile = String.raw`\033]0;owned\007\033]52;c;b3duZWQ=\007\033]52;c;?\007\033]11;?\007\033[c\033[>c\033[>q\033[21t\033[18t` +
          String.raw`\033P$qm\033\\\033[?1$p<img src=x onerror=alert(1)>`
        await type(page, `printf '${hostile}'; sleep 1; echo; read -t 1 -n 1 back; echo "[$back]" over`)
        await shows(page, "[] over")
        assert.notInclude(await page.title(), "owned")
        assert.strictEqual(await page.frameLocator("#terminal").locator("img").count(), 0)

        await type(page, "clear; echo it is still $((40 + 2))")
        await shows(page, "it is still 42")
        await page.reload()
        await state(page, "Connected")
        await shows(page, "it is still 42")
        await type(page, "exit")
        await state(page, "The shell ended.")
        await page.getByRole("button", { name: "Connect" }).click()
        await state(page, "Connected")
      })
    }), 120_000)

  real(`fits a phone in the dark, and says why a sandbox that ended has none ${NEEDS}`, () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, terminate } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Ready.]]")
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        await page.goto(`/sandboxes/${id}/terminal`)
        await state(page, "Connected")
        await type(page, "stty size")
        await inspect(page, "terminal-phone")
        await terminate(id)
        await state(page, "The sandbox ended.")
        await page.getByRole("button", { name: "Connect" }).click()
        await state(page, "The sandbox has no running box.")
      }, { options: { viewport: { width: 390, height: 844 }, colorScheme: "dark" } })
    }), 120_000)
})
