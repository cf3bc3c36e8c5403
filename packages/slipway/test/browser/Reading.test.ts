/** Agents' text as people read it: Markdown, code and hostile text in it. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

/** Creates a sandbox, and leads to its page as it is once the turn is over. */
const worked = Effect.map(Shop.api, ({ create }) => async (page: Page, prompt: string, title = "Read it", ref?: string) => {
  const id = await create(prompt, { title, ...(ref === undefined ? {} : { repos: [{ fullName: "acme/shop", ref }] }) })
  await page.goto(`/sandboxes/${id}`)
  await Shop.turnIs(page, "Done")
  await page.reload()
  return id
})

const HOSTILE = "<img src=x onerror=alert(1)><script>alert(1)</script>"
const HIDDEN = "\u202egnp.exe\u001b[31m"

/** As the scripts of the offline agent take it. */
const say = (text: string) => `[[say ${text.replaceAll("]", "\\]")}]]`

layer(Shop.layer(), { excludeTestServices: true })("what an agent writes", (it) => {
  it.effect("is read as Markdown, with code in colours", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      const code = [
        "```ts",
        "/** The price of a `lamp`. */",
        "export const price = async (name: string): Promise<number> => {",
        "  if (name === \"lamp\") return 30 // in euros",
        "  throw new Error(`no ${name}`)",
        "}",
        "```"
      ]
      const text = [
        "## What I changed",
        "",
        "The **prices** are in `src/prices.js`; see [the docs](https://example.org/docs).",
        "",
        ...code,
        "",
        "1. Added a lamp",
        "2. Ran the tests:",
        "   - all of them",
        "   - ~~none~~ passed",
        "",
        "> Prices are in euros.",
        "",
        "| Thing | Price | Where it is sold, and to whom, and why |",
        "|-------|------:|----|",
        "| Lamp  | 30    | shop |",
        "| Chair | 45    | shop |"
      ].join("\n")
      const work = yield* worked
      yield* visit(async (page) => {
        await signIn(page, link)
        await work(page, `${say(text)} [[think **Hm.** Which \`file\`?]]`)
        const said = page.locator(".item.text .markdown")
        assert.deepStrictEqual(await said.locator(".heading").allInnerTexts(), ["What I changed"])
        assert.deepStrictEqual(await said.locator("td.right").allInnerTexts(), ["30", "45"])
        assert.deepStrictEqual(await said.locator("pre .keyword").allInnerTexts(), ["export", "const", "async", "string", "number", "if",
          "return", "throw", "new"])
        assert.strictEqual(await said.getByRole("link").getAttribute("rel"), "noreferrer noopener nofollow")
        assert.deepStrictEqual(await page.locator(".item.reasoning strong").allTextContents(), ["Hm."])
        // A comment of code is no comment of a person.
        const comment = page.locator("pre.code .comment").first()
        assert.deepStrictEqual(
          await comment.evaluate((piece) => [getComputedStyle(piece).borderLeftWidth, getComputedStyle(piece).marginBottom]),
          ["0px", "0px"]
        )
        await inspect(page, "sandbox-markdown")
      })
    }))

  it.effect("does nothing and hides nothing, in titles, prompts, messages and tools", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      const text = [
        `${HOSTILE} ${HIDDEN}`,
        "[press](javascript:alert(1)) ![look](https://example.org/look.png) [![a](javascript:alert(1))](data:text/html,x)",
        "```html",
        `${HOSTILE} ${HIDDEN}`,
        "```",
        `x${"y".repeat(1_000)}`
      ].join("\n")
      const file = `a ${HOSTILE.replaceAll("/", "")}.txt`
      const prompt = [say(text), say(`# ${HOSTILE}`), `[[write path=${JSON.stringify(file)} content=${HOSTILE} ${HIDDEN}\nconst a = 1]]`]
      const work = yield* worked
      yield* visit(async (page) => {
        page.on("dialog", () => assert.fail("a script of an agent ran"))
        await signIn(page, link)
        const id = await work(page, prompt.join(" "), `T ${HOSTILE} ${HIDDEN}`)
        // The timeline is a picture of ours.
        assert.strictEqual(await page.locator("main img, main svg:not(#timeline svg), main script").count(), 0)
        assert.deepStrictEqual(await page.locator(".markdown a").evaluateAll((all) => all.map((one) => one.getAttribute("href"))), [
          "https://example.org/look.png"
        ])
        const shown = await page.locator("main").innerText()
        for (const part of [HOSTILE, "⟨RIGHT-TO-LEFT OVERRIDE⟩gnp.exe⟨ESC⟩[31m", "[press](javascript:alert(1))"]) {
          assert.include(shown, part)
        }
        for (const hidden of HIDDEN.match(/\p{C}/gu) ?? []) assert.notInclude(shown, hidden)
        await inspect(page, "sandbox-hostile")

        // The same in names of files, in diffs and in files.
        await page.goto(`/sandboxes/${id}/changes`)
        assert.strictEqual(await page.locator("main img, main script").count(), 0)
        assert.strictEqual(await page.locator(".changed-file .path").innerText(), file)
        assert.include(await page.locator(".changed-file .added .line").first().innerText(), `${HOSTILE} ⟨RIGHT-TO-LEFT OVERRIDE⟩gnp.exe`)
        await inspect(page, "changes-hostile")
        await page.getByRole("link", { name: "All files of acme/shop" }).click()
        await inspect(page, "files")
        await page.getByRole("searchbox", { name: "Find in files" }).fill("ONERROR=alert(1)>")
        await page.getByRole("checkbox", { name: "Ignore case" }).check()
        await page.getByRole("button", { name: "Search" }).click()
        await page.getByText("1 file found.").waitFor()
        assert.strictEqual(await page.locator("main img, main script").count(), 0)
        assert.include(await page.locator(".found code").innerText(), `${HOSTILE} ⟨RIGHT-TO-LEFT OVERRIDE⟩gnp.exe`)
        await inspect(page, "files-found")
        await page.locator(".found").getByRole("link", { name: "1", exact: true }).click()
        assert.include(await page.locator("tr:target").innerText(), HOSTILE)
        await page.goto(`/sandboxes/${id}/files`)
        await page.getByRole("link", { name: file }).click()
        assert.strictEqual(await page.locator("main img, main script").count(), 0)
        assert.include(await page.locator(".line").first().innerText(), `${HOSTILE} ⟨RIGHT-TO-LEFT OVERRIDE⟩gnp.exe`)
        await inspect(page, "file")
        const saving = page.waitForEvent("download")
        await page.getByRole("link", { name: "Download" }).click()
        assert.include((await saving).suggestedFilename(), ".txt")
      })
    }))

  it.effect("asks for nothing elsewhere and fits the window, on every page that has it", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      const link = yield* linkFor()
      const text = `${HOSTILE} ${HIDDEN} ![look](https://evil.test/look.png) <link rel=prefetch href=//evil.test> ${"y".repeat(1_000)}`
      const file = `\u202e${HOSTILE.replaceAll("/", "")}.png`
      const prompt = [say(text), `[[write path=${JSON.stringify(file)} content=${text}]]`, `[[shell echo '${text}']]`].join(" ")
      const work = yield* worked
      const elsewhere: Array<string> = []
      yield* visit(async (page, context) => {
        page.on("dialog", () => assert.fail("a script of an agent ran"))
        context.on("request", (request) => {
          if (new URL(request.url()).origin !== new URL(server.url).origin) elsewhere.push(request.url())
        })
        await signIn(page, link)
        const id = await work(page, prompt, `T ${HOSTILE} ${HIDDEN}`)
        const path = encodeURIComponent(file)
        const addresses = [
          "/sandboxes",
          "/sandboxes?search=prefetch",
          `/sandboxes/${id}`,
          `/sandboxes/${id}?view=log`,
          `/sandboxes/${id}/changes`,
          `/sandboxes/${id}/changes?layout=split`,
          `/sandboxes/${id}/files`,
          `/sandboxes/${id}/files?search=prefetch`,
          `/sandboxes/${id}/files?path=${path}`
        ]
        for (const width of [390, 1_440]) {
          await page.setViewportSize({ width, height: 900 })
          for (const address of addresses) {
            await page.goto(address)
            const { content, wide } = await page.evaluate(() => ({
              content: document.body.textContent,
              wide: document.documentElement.scrollWidth
            }))
            const where = `${address} at ${width}`
            assert.isAtMost(wide, width, where)
            assert.include(content, "⟨RIGHT-TO-LEFT OVERRIDE⟩", where)
            for (const hidden of HIDDEN.match(/\p{C}/gu) ?? []) assert.notInclude(content, hidden, where)
          }
        }
      })
      assert.deepStrictEqual(elsewhere, [])
    }))

  it.effect("takes comments on lines of a diff, several of which are one message, with and without scripts", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const [first, plain, touch] = [yield* linkFor(), yield* linkFor(), yield* linkFor()]
      const work = yield* worked
      const write = `[[write path="b.ts" content=one\ntwo ${HIDDEN}\nthree]]`
      const sent = "b.ts:2\n> two ⟨RIGHT-TO-LEFT OVERRIDE⟩gnp.exe⟨ESC⟩[31m\n\nNot this one.\n\nb.ts:3\n> three\n\nNor this."
      const id = yield* visit(async (page) => {
        await signIn(page, first)
        const id = await work(page, write)
        await page.goto(`/sandboxes/${id}/changes`)
        const plus = (line: number) => page.getByRole("button", { name: `Comment on line ${line}` })
        const field = page.getByRole("textbox", { name: "Comment on b.ts" })
        await plus(2).click()
        await field.fill("Not this one.")
        await inspect(page, "changes-comment")
        await page.getByRole("button", { name: "Add to message" }).click()
        // By keyboard: arrows lead from line to line.
        await plus(2).press("ArrowDown")
        await plus(3).press("Enter")
        await field.fill("Never mind.")
        await field.press("Escape")
        await plus(3).press("Enter")
        assert.strictEqual(await field.inputValue(), "")
        await field.fill("Nor this.")
        await field.press("Control+Enter")
        await field.waitFor({ state: "detached" })
        const message = page.getByRole("textbox", { name: "Message the agent" })
        assert.strictEqual(await message.inputValue(), sent)
        // The sandbox's page has the same draft.
        await page.goto(`/sandboxes/${id}`)
        assert.strictEqual(await message.inputValue(), sent)
        await page.goto(`/sandboxes/${id}/changes`)
        await page.getByRole("button", { name: "Send" }).click()
        await page.locator("#outcome", { hasText: "Sent." }).waitFor()
        assert.strictEqual(await message.inputValue(), "")
        await page.goto(`/sandboxes/${id}`)
        assert.include(await page.locator(".item.prompt").last().innerText(), "> three")
        return id
      })
      yield* visit(async (page) => {
        await signIn(page, plain)
        await page.goto(`/sandboxes/${id}/changes`)
        const lines = page.getByRole("region", { name: "Changed lines of b.ts" })
        await lines.getByRole("button", { name: "Comment on line 3" }).click()
        const message = page.getByRole("textbox", { name: "Message the agent" })
        assert.strictEqual(await message.inputValue(), "b.ts:3\n> three\n\n")
        await message.press("Control+End")
        await message.pressSequentially("Why three?")
        await page.getByRole("button", { name: /Send|Queue/u }).click()
        await page.waitForURL(/\?done=/u)
        await page.locator(".item.prompt", { hasText: "Why three?" }).waitFor()
      }, { options: { javaScriptEnabled: false } })
      yield* visit(async (page) => {
        await signIn(page, touch)
        await page.goto(`/sandboxes/${id}/changes`)
        const button = page.locator(".comment-on").first()
        assert.strictEqual(await button.evaluate((it) => getComputedStyle(it).opacity), "1")
        await inspect(page, "changes-touch")
        await page.goto(`/sandboxes/${id}/changes?path=b.ts&line=3`)
        await inspect(page, "changes-comment-plain")
      }, { options: { hasTouch: true, isMobile: true } })
    }))

  it.effect("stands beside the text before it where the reader chose so, and below it on a phone, with comments on both", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const [first, plain] = [yield* linkFor(), yield* linkFor()]
      const work = yield* worked
      /** The lines as they are seen: those of one height are beside each other. */
      const seen = (page: Page) =>
        page.locator(".diff .line").evaluateAll((cells) => {
          const rows = new Map<number, Array<{ readonly left: number; readonly text: string | null }>>()
          for (const cell of cells) {
            if (!cell.checkVisibility()) continue
            const { left, y } = cell.getBoundingClientRect()
            rows.set(Math.round(y), [...rows.get(Math.round(y)) ?? [], { left, text: cell.textContent }])
          }
          return [...rows].sort(([a], [b]) => a - b).map(([, row]) => row.sort((a, b) => a.left - b.left).map(({ text }) => text))
        })
      const [old, now] = ["Sells three things. See docs/running.md.", "Sells two things."]
      const beside = [["# Shop", "# Shop"], ["", ""], [old, now], ["Open daily."]]
      const below = [["# Shop"], [""], [old], [now], ["Open daily."]]
      const id = yield* visit(async (page) => {
        await signIn(page, first)
        const id = await work(page, "[[write path=README.md content=# Shop\n\nSells two things.\nOpen daily.\n]]")
        await page.goto(`/sandboxes/${id}/changes`)
        await page.getByRole("link", { name: "Split" }).click()
        await page.locator(".diff.split").waitFor()
        assert.deepStrictEqual(await seen(page), beside)
        await page.getByRole("checkbox", { name: "Viewed README.md" }).waitFor()
        const on = (name: string) => page.getByRole("button", { name: `Comment on ${name}`, exact: true })
        const field = (place: string) => page.getByRole("textbox", { name: `Comment on README.md:${place}`, exact: true })
        await on("line 3").click()
        await field("3").fill("Which?")
        await on("removed line 3").click()
        await field("3 (removed)").fill("Why?")
        await inspect(page, "changes-split")
        await field("3").press("Control+Enter")
        await field("3 (removed)").press("Control+Enter")
        assert.strictEqual(
          await page.getByRole("textbox", { name: "Message the agent" }).inputValue(),
          `README.md:3\n> ${now}\n\nWhich?\n\nREADME.md:3 (removed)\n> ${old}\n\nWhy?`
        )
        // The choice stays, where the address says nothing of it too; on a phone it makes no difference.
        await page.setViewportSize({ width: 390, height: 844 })
        await page.goto(`/sandboxes/${id}/changes`)
        assert.deepStrictEqual(await seen(page), below)
        await page.getByRole("link", { name: "Split" }).waitFor({ state: "hidden" })
        await on("removed line 3").click()
        const [line, comment] = [page.locator(".line", { hasText: old }), field("3 (removed)")]
        const bottomOf = async (one: typeof line) => (await one.boundingBox().then((box) => box === null ? NaN : box.y + box.height))
        assert.isAbove(await bottomOf(comment), await bottomOf(line))
        assert.isBelow(await bottomOf(comment), await bottomOf(page.locator(".line", { hasText: now })))
        await inspect(page, "changes-split-phone")
        return id
      })
      yield* visit(async (page) => {
        await signIn(page, plain)
        await page.goto(`/sandboxes/${id}/changes`)
        await page.getByRole("link", { name: "Split" }).click()
        assert.deepStrictEqual(await seen(page), beside)
        await page.getByRole("link", { name: "Unified" }).click()
        await page.waitForURL(/layout=unified/u)
        assert.deepStrictEqual(await seen(page), below)
      }, { options: { javaScriptEnabled: false } })
    }))

  it.effect("has marks at viewed files, which stay until the file changes", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { send } = yield* Shop.api
      const link = yield* linkFor()
      const work = yield* worked
      const lines = (count: number) => Array.from({ length: count }, (_, i) => `line ${i}`).join("\n")
      const files = ["a", "b", "c", "d", "e", "f", "g"].map((name) => `[[write path="${name}.ts" content=${lines(name === "f" ? 80 : 9)}]]`)
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await work(page, files.join(" "))
        await page.goto(`/sandboxes/${id}/changes`)
        const viewed = (name: string) => page.getByRole("checkbox", { name: `Viewed ${name}` })
        const count = (text: string) => page.locator("#viewed", { hasText: text }).waitFor()
        await count("0 of 7 viewed")
        await viewed("a.ts").check()
        await viewed("b.ts").check()
        await count("2 of 7 viewed")
        await page.locator("#file-1 .added").first().waitFor({ state: "hidden" })
        // The list folds, and a file's head stays while its lines scroll.
        const folded = page.locator(".more-files a", { hasText: "f.ts" })
        await folded.waitFor({ state: "hidden" })
        await page.locator(".more-files summary").click()
        await folded.click()
        await page.locator("#file-6 .added").nth(60).scrollIntoViewIfNeeded()
        const head = await page.locator("#file-6 > summary").boundingBox()
        assert.deepInclude(head, { y: 0 })
        assert.isAtMost((await viewed("f.ts").boundingBox())?.y ?? Infinity, 20)
        await inspect(page, "changes-viewed")
        await send(id, `[[write path="b.ts" content=other]]`)
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        await page.goto(`/sandboxes/${id}/changes`)
        await count("1 of 7 viewed")
        assert.deepStrictEqual([await viewed("a.ts").isChecked(), await viewed("b.ts").isChecked()], [true, false])
      })
    }))

  it.effect("does nothing and hides nothing in branches and tools, and takes no room with lines of a megabyte", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      const tool = `echo '${HOSTILE} ${HIDDEN} [press](javascript:alert(1))'`
      const line = "head -c 1000000 /dev/zero | tr '\\0' w > line.txt; printf 'end' >> line.txt"
      const prompt = [`[[shell ${tool}]]`, `[[shell ${line}]]`, say("z".repeat(15_000)), say(`${HIDDEN} `.repeat(2_000))]
      const work = yield* worked
      yield* visit(async (page) => {
        page.on("dialog", () => assert.fail("a script of an agent ran"))
        await signIn(page, link)
        const id = await work(page, prompt.join(" "), "Hidden", Shop.HOSTILE_BRANCH)
        assert.strictEqual(await page.locator("main img, main script").count(), 0)
        assert.include(await page.locator("#facts").textContent(), Shop.HOSTILE_BRANCH.replace("\u202e", "⟨RIGHT-TO-LEFT OVERRIDE⟩"))
        const said = await page.locator("#conversation").textContent()
        for (const part of [HOSTILE, "⟨RIGHT-TO-LEFT OVERRIDE⟩gnp.exe⟨ESC⟩[31m", "[press](javascript:alert(1))", "z".repeat(15_000)]) {
          assert.include(said, part)
        }
        for (const hidden of HIDDEN.match(/\p{C}/gu) ?? []) assert.notInclude(said, hidden)
        // The rest of a long text is a link away.
        await page.getByRole("link", { name: "Show the rest" }).last().click()
        assert.include(await page.locator("main").innerText(), "⟨RIGHT-TO-LEFT OVERRIDE⟩gnp.exe⟨ESC⟩[31m")
        await inspect(page, "text-hostile")
        for (const place of ["changes", "files"]) {
          await page.goto(`/sandboxes/${id}/${place}?path=line.txt`)
          assert.include(await page.locator(".line").first().innerText(), `${"w".repeat(400)} … 999603 more characters`)
          await inspect(page, `${place}-long-line`)
        }
      })
    }))
})
