/** `slipway auth` with the browser it opens: from a machine without a key to a machine with one, and back. */
import { assert, layer } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs"
import path from "node:path"
import type { Page } from "playwright-core"
import { command, type Ended, folder, until } from "../commands/SlipwayProcess.ts"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"

interface Machine {
  readonly home: string
  readonly credentials: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** The address that the last browser was asked for; empty: none was. */
  readonly opened: () => string
}

/** A home without a key, and a browser that tells what it is asked for. */
const machine = Effect.map(folder, (home): Machine => {
  const opened = path.join(home, "opened")
  const browser = path.join(home, "browser")
  writeFileSync(browser, `#!/bin/sh\nprintf %s "$1" > ${opened}.part && mv ${opened}.part ${opened}\n`)
  chmodSync(browser, 0o700)
  return {
    home,
    credentials: path.join(home, "config/slipway/credentials.json"),
    env: { PATH: process.env["PATH"], HOME: home, XDG_CONFIG_HOME: path.join(home, "config"), BROWSER: browser },
    opened: () => existsSync(opened) ? readFileSync(opened, "utf8") : ""
  }
})

/** A command that runs: what it said so far, and its end. */
const start = ({ env, home }: Machine, ...args: ReadonlyArray<string>) =>
  Effect.sync(() => {
    const { closed, output, stderr, stdout } = SpawnedProgram.start(process.execPath, [command, "auth", ...args], { cwd: home, env })
    const address = /^(?:The browser opens|Open) +(\S+)$/mu
    return {
      ended: Effect.promise(async (): Promise<Ended> => ({ code: (await closed).code, stdout: stdout(), stderr: stderr() })),
      said: output,
      page: until(Effect.sync(() => address.exec(stderr())?.[1] ?? ""), (found) => found !== ""),
      code: () => /^Your code +(\S+)$/mu.exec(stderr())?.[1] ?? ""
    }
  })

const run = (machine: Machine, ...args: ReadonlyArray<string>) => Effect.flatMap(start(machine, ...args), ({ ended }) => ended)

const statusOf = (url: string, key: string) =>
  Effect.promise(async () => (await fetch(`${url}/api/public/v1/sandboxes`, { headers: { authorization: `Bearer ${key}` } })).status)

const approve = async (page: Page, code: string) => {
  await page.getByLabel(`The terminal shows ${code}`).check()
  await page.getByRole("button", { name: "Approve" }).click()
  await page.getByText("The machine is signed in.").waitFor()
}

layer(Browser.layer(), { excludeTestServices: true })("slipway auth", (it) => {
  it.effect("opens the browser, where a person approves, and keeps the key for the user alone; logout revokes it", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      const [link, again] = [yield* linkFor(), yield* linkFor()]
      const laptop = yield* machine
      const nowhere = yield* run(laptop, "status")
      assert.deepStrictEqual([nowhere.code, nowhere.stdout], [6, ""])
      assert.include(nowhere.stderr, "slipway auth login")

      const login = yield* start(laptop, "login", "--url", server.url, "--name", "ada's <b>laptop</b>")
      const address = yield* login.page
      const code = login.code()
      assert.strictEqual(address, `${server.url}/device?user_code=${code}`)
      yield* until(Effect.sync(laptop.opened), (opened) => opened === address)
      yield* visit(async (page) => {
        await page.goto(address)
        await page.waitForURL("**/sign-in?next=*")
        await page.goto(link)
        await page.getByRole("button", { name: "Sign in", exact: true }).click()
        await page.getByRole("navigation", { name: "Main" }).waitFor()
        await page.goto(address)
        await page.getByText("ada's <b>laptop</b>").first().waitFor()
        await inspect(page, "device")
        await page.getByRole("button", { name: "Approve" }).click()
        // The browser asks for the comparison itself.
        assert.strictEqual(await page.evaluate(() => document.activeElement?.id), "compared")
        await approve(page, code)
        await inspect(page, "device-approved")
        await page.goto("/device")
        await inspect(page, "device-code")
      })
      // The key is made when the command asks for it.
      const { code: exit, stderr, stdout } = yield* login.ended
      assert.strictEqual(exit, 0, stderr)
      assert.include(stdout, `Signed in to ${server.url}, in the grant default`)
      assert.strictEqual(statSync(laptop.credentials).mode & 0o777, 0o600)
      const key: string = JSON.parse(readFileSync(laptop.credentials, "utf8")).servers[server.url].key
      assert.notInclude(login.said() + server.output(), key)
      assert.strictEqual(yield* statusOf(server.url, key), 200)
      yield* visit(async (page) => {
        await signIn(page, again)
        await page.goto("/keys")
        await page.getByRole("rowheader", { name: "ada's <b>laptop</b>" }).waitFor()
      })

      const status = yield* run(laptop, "status", "--json")
      assert.deepStrictEqual([status.code, JSON.parse(status.stdout)], [0, [
        { server: server.url, state: "signed in", key: `sbx_live_…${key.slice(-4)}` }
      ]])
      const logout = yield* run(laptop, "logout", "--url", server.url)
      assert.deepStrictEqual([logout.code, logout.stderr], [0, ""])
      assert.strictEqual(yield* statusOf(server.url, key), 401)
      assert.strictEqual((yield* run(laptop, "status")).code, 6)
      assert.strictEqual((yield* run(laptop, "logout", "--url", server.url)).code, 2)
    }).pipe(Effect.scoped))

  it.effect("works without scripts and without a browser on the machine, and replaces the key that was kept", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      yield* (yield* Access).createGrant("second")
      const laptop = yield* machine
      const [link, again] = [yield* linkFor(), yield* linkFor()]
      const keyOf = () => String(JSON.parse(readFileSync(laptop.credentials, "utf8")).servers[server.url].key)
      const through = (link: string, grant: string) =>
        Effect.gen(function*() {
          const login = yield* start(laptop, "login", "--url", server.url, "--no-browser", "--json", "--name", "build")
          yield* login.page
          yield* visit(async (page) => {
            await page.goto("/device")
            await page.getByRole("textbox", { name: "Code" }).fill(link.split("#")[1] ?? "")
            await page.getByRole("button", { name: "Sign in", exact: true }).click()
            await page.waitForURL("**/device")
            await page.getByRole("textbox", { name: "Code" }).fill(login.code().replace("-", " ").toLowerCase())
            await page.getByRole("button", { name: "Continue" }).click()
            await page.getByLabel("Grant the key works in").selectOption(grant)
            await approve(page, login.code())
          }, { options: { javaScriptEnabled: false } })
          const { code, stderr, stdout } = yield* login.ended
          assert.strictEqual(code, 0, stderr)
          return JSON.parse(stdout)
        })
      const first = yield* through(link, "default")
      assert.strictEqual(laptop.opened(), "")
      assert.deepStrictEqual([first.server, first.grant.name, first.label], [server.url, "default", "build"])
      const former = keyOf()
      const second = yield* through(again, "second")
      assert.strictEqual(second.grant.name, "second")
      assert.deepStrictEqual([yield* statusOf(server.url, former), yield* statusOf(server.url, keyOf())], [401, 200])
    }).pipe(Effect.scoped))

  it.effect("ends without a key when the person denies", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      const link = yield* linkFor()
      const laptop = yield* machine
      const login = yield* start(laptop, "login", "--url", server.url, "--no-browser")
      const address = yield* login.page
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto(address)
        await page.getByRole("button", { name: "Deny" }).click()
        await page.getByText("Denied. The machine gets no key.").waitFor()
      })
      const { code, stderr } = yield* login.ended
      assert.strictEqual(code, 4)
      assert.include(stderr, "not signed in: The request was denied.")
      assert.isFalse(existsSync(laptop.credentials))
    }).pipe(Effect.scoped))

  it.effect("says what helps where nothing answers, or the key would not be kept", () =>
    Effect.gen(function*() {
      const laptop = yield* machine
      const unreachable = yield* run(laptop, "login", "--url", "http://127.0.0.1:1")
      assert.deepStrictEqual([unreachable.code, unreachable.stdout], [7, ""])
      assert.include(unreachable.stderr, "nothing answers at http://127.0.0.1:1")
      const wrong = yield* run(laptop, "login", "--url", "ftp://x")
      assert.strictEqual(wrong.code, 2)
      const { server } = yield* Browser
      writeFileSync(path.join(laptop.home, "config"), "")
      const unusable = yield* run(laptop, "login", "--url", server.url)
      assert.strictEqual(unusable.code, 1)
      assert.notInclude(unusable.stderr, "Your code")
    }).pipe(Effect.scoped))
})
