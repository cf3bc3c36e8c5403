import { assert, layer } from "@effect/vitest"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { Conversation } from "@slipway/pages/sandboxes/conversation/Conversation"
import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"
import type { Locator, Page } from "playwright-core"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

/** Each item of the page, in its order, with all of its text. */
const shown = (page: Page) =>
  page.locator("#conversation [data-key]").evaluateAll((items) =>
    items.map((item) => `${item.getAttribute("data-key")} ${item.textContent.replaceAll(/\s+/gu, " ").trim()}`)
  )

/** A page that was updated live equals a page that is loaded now, and has every item of the log. */
const isAsLoaded = async (page: Page, read: () => Promise<ReadonlyArray<unknown>>) => {
  for (;;) {
    const events = await read()
    const conversation = new Conversation()
    for (const event of events) conversation.add(fromWire(JSON.stringify(event)))
    const keys = conversation.items.map(({ key }) => key)
    await page.waitForFunction((count) => document.querySelectorAll("#conversation [data-key]").length >= count, keys.length)
    const live = await shown(page)
    await page.reload()
    const loaded = await shown(page)
    // A checkpoint may follow the end of a turn at any time.
    if ((await read()).length > events.length) continue
    assert.deepStrictEqual(loaded, live)
    return assert.sameMembers(keys, live.map((item) => item.slice(0, item.indexOf(" "))))
  }
}

const looked = (state: "visible" | "hidden") => (page: Page) =>
  page.evaluate((visibilityState) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, value: visibilityState })
    document.dispatchEvent(new Event("visibilitychange"))
  }, state)
/** As when another tab is in front of it. */
const lookAway = looked("hidden")
const lookAt = looked("visible")

const said = (page: Page, text: string) => page.locator(".item:not(.prompt) .item-text", { hasText: text }).first().waitFor()

layer(Shop.layer(), { excludeTestServices: true })("the page of a sandbox", (it) => {
  it.effect("shows what happens as it happens; what is approved there is done, what is denied is not", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, events, publish } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/sandboxes")
        await inspect(page, "sandboxes-none")
        const id = await create(
          "[[say Let me <b>begin</b> & see.]] [[think Which file?]] [[slow 20 20]] " +
            "[[write path=docs/a.md content=hello <i>you</i>]] [[write path=b.md content=no]] " +
            "[[write path=src/prices.js content=export const prices = {}]] [[say All done.]]",
          Shop.ASKS
        )
        await page.goto(`/sandboxes/${id}`)
        await Shop.connection(page, "Live")
        await said(page, "Let me <b>begin</b> & see.")
        const cards = page.locator(".approval")
        const announced = (text: string) => page.locator("#announcement", { hasText: text }).waitFor({ state: "attached" })
        await cards.filter({ hasText: "a.md" }).waitFor()
        await Shop.turnIs(page, "Needs you")
        await announced("The agent asks to be allowed: Write docs/a.md")
        await inspect(page, "sandbox-asks")
        await cards.locator("button[value=approve]").click()
        await cards.filter({ hasText: "b.md" }).getByRole("button", { name: "Deny" }).click()
        await cards.filter({ hasText: "prices.js" }).locator("button[value=approve]").click()
        await Shop.turnIs(page, "Done")
        await said(page, "All done.")
        await announced("Done")
        assert.strictEqual(await cards.count(), 0)
        assert.include((await shown(page)).join("\n"), "Denied")
        await isAsLoaded(page, () => events(id))
        await inspect(page, "sandbox-done")

        await page.getByRole("link", { name: "Files changed" }).click()
        await page.getByRole("heading", { level: 1, name: "Files changed" }).waitFor()
        await Shop.textsAre(page.locator(".changes a"), ["docs/a.md", "src/prices.js"])
        await page.locator(".changes").getByRole("link", { name: "docs/a.md" }).click()
        await Shop.textsAre(page.locator("#file-1 .added .line"), ["hello <i>you</i>"])
        const prices = ["export const prices = { lamp: 30, chair: 45, table: 120 }", "export const prices = {}"]
        await Shop.textsAre(page.locator("#file-2 .diff .line"), prices)
        await Shop.textsAre(page.locator("#file-2 del"), [" lamp: 30, chair: 45, table: 120 "])
        // Each can be folded away.
        await page.locator("#file-1 summary").click()
        await page.locator("#file-1 .added").waitFor({ state: "hidden" })
        await page.locator("#file-1 summary").click()
        await inspect(page, "changes-all")
        await page.getByRole("link", { name: "Checkpoint 1", exact: true }).click()
        await page.getByText("From where the sandbox started to checkpoint 1.").waitFor()
        await Shop.textsAre(page.locator("#file-2 .diff .line"), prices)
        await page.getByRole("link", { name: "All changes" }).click()
        await page.getByRole("link", { name: "View file alone src/prices.js" }).click()
        await Shop.textsAre(page.locator(".diff .line"), prices)
        await inspect(page, "changes")

        // The page that publishing leads to is followed, too: what a second publication makes shows by itself.
        await page.getByRole("button", { name: "Publish draft PR" }).click()
        await page.getByText(/Draft pull request #\d+ opened\./u).waitFor()
        await page.getByRole("link", { name: "Pull request", exact: true }).click()
        await page.locator(".pull", { hasText: "No checks" }).waitFor()
        await inspect(page, "sandbox-published")
        await Shop.connection(page, "Live")
        await publish(id)
        await said(page, "Pull request of acme/shop: Updating")
        await said(page, "Pull request of acme/shop #")
        await page.locator(".pull", { hasText: /acme\/shop\s+Draft\s+#\d+ Try it/u }).waitFor()
        await page.locator(".pull").getByRole("link", { name: "Try it" }).click()
        await page.getByRole("heading", { level: 1, name: "Try it #" }).waitFor()
        await inspect(page, "pull")
        await page.goto("/sandboxes")
        await inspect(page, "sandboxes")
      })
    }))

  it.effect("misses nothing and repeats nothing when the network drops, again and again", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      const { create, events } = yield* Shop.api
      const link = yield* linkFor()
      const { cut, refuseNext, url } = yield* cuttingProxy(server.url)
      yield* visit(async (page, context) => {
        await signIn(page, link.replace(server.url, url))
        const steps = Array.from({ length: 12 }, (_, n) => `[[say Step ${n}.]] [[slow 20 25]] [[write path=f${n} content=${n}]]`)
        const id = await create(steps.join(" "))
        await page.goto(`${url}/sandboxes/${id}`)
        for (const n of [0, 2]) {
          await said(page, `Step ${n}.`)
          cut()
        }
        await said(page, "Step 3.")
        // A gateway in between that has no server for the request: the browser gives up on such an answer.
        const refused = refuseNext(2)
        cut()
        await refused
        await Shop.connection(page, "Reconnecting…")
        await said(page, "Step 5.")
        await context.setOffline(true)
        await Shop.connection(page, "Reconnecting…")
        await context.setOffline(false)
        await said(page, "Step 7.")
        await lookAway(page)
        await Shop.connection(page, "Paused")
        await lookAt(page)
        await Shop.turnIs(page, "Done")
        await Shop.connection(page, "Live")
        await isAsLoaded(page, () => events(id))
      }, { drops: true, refused: [503] })
    }))

  it.effect("asks who was signed out meanwhile to sign in again, and leads back", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const sessions = yield* Sessions
      const { userId } = yield* (yield* MemberStore).owner
      const [first, second] = [yield* linkFor(), yield* linkFor()]
      const run = Effect.runPromiseWith(yield* Effect.context<never>())
      yield* visit(async (page) => {
        await signIn(page, first)
        const id = await create("[[hang]]")
        await page.goto(`/sandboxes/${id}`)
        await Shop.connection(page, "Live")
        await run(sessions.signOutEverywhere(userId))
        await Shop.connection(page, "Your session has ended.")
        await inspect(page, "sandbox-signed-out")
        await page.getByRole("link", { name: "Sign in again" }).click()
        await page.getByRole("textbox", { name: "Code" }).fill(second)
        await page.getByRole("button", { name: "Sign in", exact: true }).click()
        await page.waitForURL(`**/sandboxes/${id}`)
        await Shop.connection(page, "Live")
      }, { refused: [401] })
    }))

  it.effect("interrupts a turn, takes the next prompt, and ends with the sandbox", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, events } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[hang]]")
        await page.goto(`/sandboxes/${id}`)
        const [interrupt, prompt] = [page.getByRole("button", { name: "Stop" }), page.getByLabel("Message the agent")]
        await Shop.turnIs(page, "Working")
        await page.getByRole("button", { name: "Queue" }).waitFor()
        await interrupt.click()
        await Shop.turnIs(page, "The turn was interrupted")
        assert.isFalse(await interrupt.isVisible())
        await prompt.fill("[[say Once\nmore.]]")
        await page.getByRole("button", { name: "Send" }).click()
        await page.getByText("Sent.").waitFor()
        await said(page, "Once\nmore.")
        await Shop.turnIs(page, "Done")

        await Shop.openMenu(page)
        await page.getByRole("link", { name: "End sandbox…" }).click()
        await inspect(page, "terminate")
        await page.getByRole("link", { name: "Cancel" }).click()
        await Shop.openMenu(page)
        await page.getByRole("link", { name: "End sandbox…" }).click()
        await page.getByRole("button", { name: "End sandbox" }).click()
        await Shop.connection(page, "Ended")
        assert.strictEqual((await page.locator("#state").innerText()).trim(), "Ended")
        await Shop.openMenu(page)
        assert.strictEqual(await page.getByRole("link", { name: "End sandbox…" }).count(), 0)
        await isAsLoaded(page, () => events(id))
        await inspect(page, "sandbox-ended")
        await page.reload()
        await Shop.connection(page, "Ended")
        await page.getByRole("link", { name: "Files changed" }).click()
        await page.getByText("No files were saved.").waitFor()
        await inspect(page, "changes-ended")
      })
    }))

  it.effect("says why a turn failed, as it happens and when it is loaded again", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, events } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Ready.]]")
        await page.goto(`/sandboxes/${id}`)
        await Shop.connection(page, "Live")
        await Shop.turnIs(page, "Done")
        await page.getByLabel("Message the agent").fill("[[error The provider refuses <b>the key</b>.]]")
        const why = page.locator(".item.problem .item-text", { hasText: "The turn failed: The provider refuses <b>the key</b>." })
        // The answer to the form is older than the end of the turn, and comes after it.
        await page.route("**/messages", async (route) => {
          const response = await route.fetch()
          await Shop.turnIs(page, "The turn failed")
          await route.fulfill({ response })
        })
        await page.getByRole("button", { name: "Send" }).click()
        await why.waitFor()
        await page.locator("#outcome .told").waitFor()
        await Shop.turnIs(page, "The turn failed")
        await isAsLoaded(page, () => events(id))
        await why.waitFor()
        await inspect(page, "sandbox-turn-failed")
      })
    }))

  const prices = "export const prices = { lamp: 30, chair: 45, table: 130 }"
  const THREE =
    `[[write path=src/prices.js content=${prices}]] [[write path=b.md content=two]] [[write path=c.md content=three]] [[say All done.]]`
  const TOLD = "I was not allowed to do this, so I left it: Write src/prices.js. I was told: Tables stay at <b>120</b>."

  it.effect("shows what an edit would change, tells the agent why it is denied, and approves all of a kind for the turn", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, events } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create(THREE, Shop.ASKS)
        await page.goto(`/sandboxes/${id}`)
        await Shop.connection(page, "Live")
        const cards = page.locator(".approval")
        await cards.locator(".diff .added .line").waitFor()
        await Shop.textsAre(cards.locator(".diff .added .line"), [prices])
        await Shop.textsAre(cards.locator(".diff ins"), ["130"])
        await cards.locator(".reason > summary").click()
        await cards.getByLabel("Reason for denying").fill("Tables stay at <b>120</b>.")
        // Letters that are typed there decide nothing.
        await cards.getByLabel("Reason for denying").press("a")
        await cards.getByLabel("Reason for denying").press("Backspace")
        await inspect(page, "sandbox-edit-asks")
        assert.strictEqual(await cards.getByLabel("Reason for denying").inputValue(), "Tables stay at <b>120</b>.")
        await cards.getByRole("button", { name: "Deny" }).click()
        await said(page, TOLD)
        await cards.getByRole("button", { name: "Approve all edits until the turn ends" }).click()
        await said(page, "All done.")
        await Shop.turnIs(page, "Done")
        assert.strictEqual(await cards.count(), 0)
        assert.include((await shown(page)).join("\n"), "Denied: Tables stay at <b>120</b>.")
        await isAsLoaded(page, () => events(id))
        const log = (await events(id)).map((event) => fromWire(JSON.stringify(event)).event)
        const resolved = log.flatMap((event) => event.type === "approval.resolved" ? event.data.by : [])
        assert.deepStrictEqual(resolved, ["user", "user", "policy"])
        await inspect(page, "sandbox-edit-denied")
      })
    }))

  it.effect("denies with a reason and approves all of a kind without scripts", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create(THREE, Shop.ASKS)
        const reached = async (place: Locator) => {
          await page.goto(`/sandboxes/${id}`)
          while (await place.count() === 0) await page.getByRole("link", { name: "Refresh" }).click()
        }
        const asksFor = (file: string) => reached(page.locator(".approval", { hasText: file }))
        await asksFor("prices.js")
        await Shop.textsAre(page.locator(".approval .diff ins"), ["130"])
        await page.locator(".approval .reason > summary").click()
        await page.getByLabel("Reason for denying").fill("Tables stay at <b>120</b>.")
        await page.getByRole("button", { name: "Deny" }).click()
        await page.getByText("Denied.", { exact: true }).waitFor()
        await asksFor("b.md")
        await page.getByRole("button", { name: "Approve all edits until the turn ends" }).click()
        await page.getByText("Approved, and all further ones of this kind until the turn ends.").waitFor()
        await reached(page.locator(".item.end", { hasText: "Done" }))
        await said(page, TOLD)
        await said(page, "All done.")
      }, { options: { javaScriptEnabled: false } })
    }))

  it.effect("works without scripts: approving, publishing, looking again", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, events } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const wide = `${"a wide line ".repeat(40)}end`
        const id = await create(`[[write path=wide.md content=${wide}]] [[say Published?]]`, Shop.ASKS)
        const until = async (text: string) => {
          await page.goto(`/sandboxes/${id}`)
          while (!(await page.locator("main").innerText()).includes(text)) await page.getByRole("link", { name: "Refresh" }).click()
        }
        await until("Needs your approval")
        await page.locator(".approval button[value=approve]").click()
        await page.getByText("Approved.", { exact: true }).waitFor()
        await until("Checkpoint 1")
        await isAsLoaded(page, () => events(id))
        await page.getByRole("link", { name: "Files changed" }).click()
        await page.getByRole("link", { name: "View file alone wide.md" }).click()
        await Shop.textsAre(page.locator(".diff .added .line"), [
          `${wide.slice(0, 400)} … ${wide.length - 400} more characters`
        ])
        await page.getByRole("button", { name: "Publish draft PR" }).click()
        await page.getByText(/Draft pull request #\d+ opened\./u).waitFor()
        await page.getByRole("link", { name: "Pull request", exact: true }).click()
        assert.match(await page.locator(".pull").innerText(), /acme\/shop\s+Draft\s+#\d+ Try it/u)
        await page.locator(".pull").getByRole("link", { name: "Try it" }).click()
        await page.getByRole("heading", { level: 1, name: "Try it #" }).waitFor()
        const facts = (await page.locator("main").innerText()).replaceAll(/\s+/gu, " ")
        for (const fact of ["Draft", "acme/shop", `slipway/${id}`, "main", "+1"]) assert.include(facts, fact)
        await page.goto(`/sandboxes/${id}`)
        await Shop.openMenu(page)
        await page.getByRole("link", { name: "End sandbox…" }).click()
        await page.getByRole("button", { name: "End sandbox" }).click()
        await page.getByText("Ending the sandbox…").waitFor()
      }, { options: { javaScriptEnabled: false } })
    }))

  it.effect("can be used with the keyboard alone, narrow and wide", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        const { keyboard } = page
        const focused = () => page.evaluate(() => document.activeElement?.textContent?.replaceAll(/\s+/gu, " ").trim() ?? "")
        /** Moves on until the element has the focus, which can be seen. */
        const tabTo = async (wanted: string) => {
          for (let i = 0; i < 100; i++) {
            if ((await focused()).startsWith(wanted)) {
              return assert.isTrue(
                await page.evaluate(() =>
                  document.activeElement !== null && getComputedStyle(document.activeElement).outlineStyle !== "none"
                ),
                `${wanted} shows no focus`
              )
            }
            await keyboard.press("Tab")
          }
          assert.fail(`${wanted} cannot be reached`)
        }
        await signIn(page, link)
        const id = await create(`[[write path=x.md content=${"x".repeat(300)}]]`, Shop.ASKS)
        await page.goto(`/sandboxes/${id}`)
        // A card that has just come takes no decision for a moment.
        await page.locator(".approval button[value=approve]:not([aria-disabled=true])").waitFor()
        await tabTo("Approve")
        await keyboard.press("Enter")
        await Shop.turnIs(page, "Done")
        // Its button is gone: the reader is where the next thing happens.
        assert.strictEqual(await focused(), "Conversation")
        await tabTo("Files changed")
        await keyboard.press("Enter")
        await page.waitForURL("**/changes")
        await tabTo("x.md")
        await keyboard.press("Enter")
        await page.locator(".diff-box").waitFor()
        await inspect(page, "changes-wide-line")
        await page.setViewportSize({ width: 360, height: 740 })
        await tabTo("Changed lines of x.md")
        await keyboard.press("ArrowRight")
        await page.waitForFunction(() => (document.querySelector(".diff-box")?.scrollLeft ?? 0) > 0)
      })
    }))
})

/** A way to the service that can be lost. */
const cuttingProxy = Effect.fnUntraced(function*(to: string) {
  const { hostname, port } = new URL(to)
  const sockets = new Set<Socket>()
  let refusals = 0
  let refused = () => {}
  const server = yield* Effect.acquireRelease(
    Effect.callback<ReturnType<typeof createServer>>((resume) => {
      const listening = createServer((inner) => {
        inner.on("error", () => {})
        if (refusals > 0) {
          inner.once("data", () => {
            inner.end("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            if (--refusals === 0) refused()
          })
          return
        }
        const outer = connect(Number(port), hostname)
        for (const socket of [inner, outer]) {
          sockets.add(socket)
          socket.on("error", () => {})
          socket.on("close", () => {
            inner.destroy()
            outer.destroy()
          })
        }
        inner.pipe(outer)
        outer.pipe(inner)
      }).listen(0, hostname, () => resume(Effect.succeed(listening)))
    }),
    (listening) =>
      Effect.sync(() => {
        for (const socket of sockets) socket.destroy()
        listening.close()
      })
  )
  const bound = server.address()
  assert(typeof bound === "object" && bound !== null)
  return {
    url: `http://${hostname}:${bound.port}`,
    cut: () => {
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    },
    /** Answers the next connections with 503; resolves after the last of them. */
    refuseNext: (count: number) => {
      refusals = count
      return new Promise<void>((resolve) => refused = resolve)
    }
  }
})
