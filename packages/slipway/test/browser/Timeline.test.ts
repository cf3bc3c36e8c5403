import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

layer(Shop.layer(), { excludeTestServices: true })("the timeline of a sandbox", (it) => {
  it.effect("comes with the page, drawn to scale, and by a link where scripts do not run", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const [link, again] = [yield* linkFor(), yield* linkFor()]
      const { create } = yield* Shop.api
      const id = yield* Effect.promise(() => create("Say hello."))
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        await page.getByRole("link", { name: "Log" }).click()
        const timeline = page.getByRole("region", { name: "Timeline" })
        await timeline.getByRole("rowheader", { name: "Between turns" }).waitFor()
        const box = await timeline.getByRole("img").boundingBox()
        const widths = await timeline.locator("svg.timeline rect").evaluateAll((rects) =>
          rects.map((rect) => rect.getBoundingClientRect().width)
        )
        assert.closeTo(widths.reduce((sum, width) => sum + width, 0), box?.width ?? 0, 3)
        await timeline.getByRole("rowheader", { name: "Turn 1" }).waitFor()
        await inspect(page, "timeline")
        await page.setViewportSize({ width: 360, height: 740 })
        for (const name of ["Where the time went", "Cost by turn"]) {
          const caption = await timeline.getByText(name, { exact: true }).boundingBox()
          assert(caption !== null)
          assert.isAbove(caption.width, 3 * caption.height, `${name} stands one letter per line`)
        }
        // As a card, each cell says what it is.
        const took = timeline.getByRole("row").filter({ hasText: "Turn 1" }).locator("td").nth(1)
        assert.strictEqual(await took.evaluate((cell) => getComputedStyle(cell, "::before").content), "\"Took: \"")
      })
      yield* visit(async (page) => {
        await signIn(page, again)
        await page.goto(`/sandboxes/${id}`)
        await page.getByRole("link", { name: "Log" }).click()
        await page.getByRole("rowheader", { name: "Cloning repositories" }).waitFor()
      }, { options: { javaScriptEnabled: false } })
    }))
})
