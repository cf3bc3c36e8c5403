/** Requests that come twice, at once, late, after a failure and after a revocation, to two processes of one service. */
import { Effect } from "effect"
import { existsSync, readFileSync } from "node:fs"
import { get } from "node:http"
import path from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import type * as PlantedServer from "../../conformance/PlantedServer.ts"
import type { Answer, Defect, Said, SaidEvent, World } from "./World.ts"
import * as Worlds from "./World.ts"

const { SANDBOXES, UNKNOWN, creation, eventually, tally, times, unique } = Worlds

const world = Worlds.shared(Effect.succeed({ name: "requests" }))
const { both, swept } = Worlds.cases(world)

const keyed = (real: World, url: string, idempotency: string, body: object, key = real.key): Promise<Answer> =>
  real.ask(url, SANDBOXES, { key, body, headers: { "idempotency-key": idempotency } })

const statusOf = async ({ ask, key, urls }: World, id: string) => (await ask(urls[0], `${SANDBOXES}/${id}`, { key })).said.status

const count = async ({ rows }: World, what: string, title: string) =>
  Number((await rows(`SELECT count(*) AS n FROM ${what} WHERE s.title = $1`, [title]))[0]?.["n"])

/** No process sees the key. */
const keyless = (tells: RegExp): Readonly<Record<string, Defect>> => ({
  "no process sees the key": {
    plant: { ask: (asked) => ({ ...asked, headers: asked.headers.filter(([name]) => name.toLowerCase() !== "idempotency-key") }) },
    tells
  }
})
/** Answers at those addresses say something else. */
const saying = (where: (address: string) => boolean, change: (said: Said) => object): Defect["plant"] => ({
  reply: (answer, { path }) =>
    where(path) ? { ...answer, body: Buffer.from(JSON.stringify(change(JSON.parse(answer.body.toString())))) } : answer
})

// ---------------------------------------------------------------------------------------------------------------

const AT_ONCE = 50

both("1 fifty creations at once under one key, to both processes: one sandbox", keyless(/50 ids/u), async (real, urls, most) => {
  const rounds = Math.min(10, most)
  const lost: Array<string> = []
  for (const round of times(rounds)) {
    const title = unique()
    const body = { ...creation(real, "[[say one]]"), title }
    const answers = await Promise.all(times(AT_ONCE).map((i) => keyed(real, urls[i % 2] ?? "", title, body)))
    const statuses = tally(answers.map(({ status }) => status))
    if (statuses !== `200 × ${AT_ONCE - 1}, 201 × 1`) lost.push(`round ${round}: ${statuses}`)
    const ids = new Set(answers.map(({ said }) => said.id))
    if (ids.size !== 1) lost.push(`round ${round}: ${ids.size} ids`)
    // A sandbox's row is its job.
    const rows = await count(real, "sandboxes s", title)
    const begun = await count(real, "sandboxes s JOIN sandbox_events e ON e.sandbox_id = s.id AND e.seq = 1", title)
    if (rows !== 1 || begun !== 1) lost.push(`round ${round}: ${rows} rows, ${begun} first events`)
    for (const id of ids) if (id !== undefined) await Worlds.terminate(real, id)
  }
  return { done: `${rounds} rounds of ${AT_ONCE} creations`, lost }
})

both("3 one key under two grants, and under two keys of one", {
  "another grant is given the first one's sandbox": {
    plant: (() => {
      let first: string | undefined
      return saying((address) => address === SANDBOXES, (said) => ({ ...said, id: first ??= said.id }))
    })(),
    tells: /two grants have one sandbox/u
  }
}, async (real, urls) => {
  const [other, second] = [await real.mint("--grant", "docs"), await real.mint("--grant", "shop")]
  const idempotency = unique()
  const ask = (i: number, key: string) => keyed(real, urls[i % 2] ?? "", idempotency, creation(real, "[[say scope]]"), key)
  const [first, theirs, again] = [await ask(0, real.key), await ask(1, other.key), await ask(1, second.key)]
  const told = `${first.status}, ${theirs.status} of another grant, ${again.status} with another key`
  const lost = told === "201, 201 of another grant, 200 with another key" ? [] : [told]
  if (first.said.id === theirs.said.id) lost.push("two grants have one sandbox")
  if (first.said.id !== again.said.id) lost.push("two keys of one grant have a sandbox each")
  return { done: `created under one Idempotency-Key: ${told}`, lost }
})

/** Ends Postgres at once, as a crash does, and waits for that; its supervisor starts it again. */
const killDatabase = async ({ service }: World) => {
  const pid = Number(readFileSync(path.join(service.home, "database/postgres/cluster/postmaster.pid"), "utf8").split("\n")[0])
  process.kill(pid, "SIGQUIT")
  while (existsSync(`/proc/${pid}`)) await pause(5)
}

both("4 attempts that fail burn no key: 400, 401, 429, and the database killed", {
  "a failed attempt is remembered": {
    plant: { reply: (answer) => answer.status === 201 ? { ...answer, status: 409 } : answer },
    tells: /409 where 201 was due/u
  }
}, async (real, urls, most) => {
  const lost: Array<string> = []
  const began: Array<number> = []
  const statuses = new Map<string, number>()
  const limited = await real.service.http(`http-limited-${unique()}`, { SLIPWAY_RATE_LIMIT_PER_MINUTE: "5" })
  const rounds = Math.min(3, most)
  for (const round of times(rounds)) {
    const idempotency = unique()
    const body = { ...creation(real, "[[say at last]]"), title: idempotency }
    const tired = (await real.mint("--grant", "shop")).key
    const expect = (status: number, answer: Answer) => {
      statuses.set(String(answer.status), (statuses.get(String(answer.status)) ?? 0) + 1)
      if (answer.status !== status) lost.push(`round ${round}: ${answer.status} where ${status} was due: ${answer.text}`)
    }
    expect(400, await keyed(real, urls[round % 2] ?? "", idempotency, { ...body, prompt: "" }))
    expect(401, await keyed(real, urls[0], idempotency, body, `${real.key.slice(0, -1)}${real.key.endsWith("0") ? "1" : "0"}`))
    for (const _ of times(5)) await real.ask(limited.url, UNKNOWN, { key: tired })
    expect(429, await keyed(real, limited.url, idempotency, body, tired))
    await killDatabase(real)
    const killed = Date.now()
    let failures = 0
    const made = await eventually("a creation after the database was killed", 60_000, async () => {
      const answer = await keyed(real, urls[failures % 2] ?? "", idempotency, body)
      if (answer.status !== 500 && answer.status !== 503) return answer
      statuses.set(String(answer.status), (statuses.get(String(answer.status)) ?? 0) + 1)
      failures++
      return null
    })
    began.push(Date.now() - killed)
    expect(201, made)
    if (failures === 0) lost.push(`round ${round}: the killed database was not noticed`)
    if (await count(real, "sandboxes s", idempotency) !== 1) lost.push(`round ${round}: not one sandbox`)
  }
  await limited.stop()
  const told = [...statuses].sort().map(([status, n]) => `${status} × ${n}`).join(", ")
  return { done: `${rounds} rounds, answered ${told}`, lost, backMillis: began, withinMillis: 10_000 }
})

both(
  "6 a creation that is repeated after its sandbox ended, a restart, 25 hours and 31 days",
  keyless(/after 25 hours: another id/u),
  async (real, urls) => {
    const lost: Array<string> = []
    const idempotency = unique()
    const body = creation(real, "[[say once]]")
    const first = await keyed(real, urls[0], idempotency, body)
    const id = first.said.id ?? ""
    await Worlds.terminate(real, id)
    await eventually(`the end of ${id}`, 60_000, async () => await statusOf(real, id) === "terminated" ? true : null)
    await real.http[0].stop()
    const restarted = Date.now()
    await real.http[0].start()
    const backMillis = [Date.now() - restarted]
    const told: Array<string> = []
    const repeat = async (when: string, same: boolean) => {
      const answers = [await keyed(real, urls[0], idempotency, body), await keyed(real, urls[1], idempotency, body)]
      told.push(`${when} ${answers.map(({ status }) => status).join(" and ")}`)
      const ids = answers.map(({ said }) => said.id)
      if (ids[0] !== ids[1]) lost.push(`${when}: two ids`)
      if ((ids[0] === id) !== same) lost.push(`${when}: ${same ? "another" : "the same"} id`)
      if (answers.map(({ status }) => status).join() !== (same ? "200,200" : "201,200")) lost.push(told.at(-1) ?? "")
    }
    const age = (hours: number) =>
      real.rows("UPDATE idempotency_keys SET created_at = now() - make_interval(hours => $1) WHERE key = $2", [hours, idempotency])
    await repeat("after its end and a restart", true)
    await age(25)
    await repeat("after 25 hours", true)
    await age(31 * 24)
    await repeat("after 31 days", false)
    return { done: `repeated at both processes: ${told.join(", ")}`, lost, backMillis, withinMillis: 60_000 }
  }
)

// ---------------------------------------------------------------------------------------------------------------

both("7 twenty terminations at once, at both processes: one is applied", {
  "a revision of each answer's own": {
    plant: (() => {
      let n = 0
      return saying((address) => address.endsWith("/terminate"), (said) => ({ ...said, revision: n++ }))
    })(),
    tells: /20 values of revision/u
  },
  "a duplicate that is applied": {
    plant: saying((address) => address.endsWith("/terminate"), (said) => ({ ...said, outcome: "applied" })),
    tells: /applied × 20/u
  }
}, async (real, urls, most) => {
  const rounds = Math.min(5, most)
  const lost: Array<string> = []
  for (const round of times(rounds)) {
    const id = await Worlds.create(real, "[[hang]]")
    if (round % 2 === 0) await Worlds.event(real, id, ({ type }) => type === "turn.started")
    const answers = await Promise.all(
      times(20).map((i) => real.ask(urls[i % 2] ?? "", `${SANDBOXES}/${id}/terminate`, { key: real.key, method: "POST" }))
    )
    const outcomes = tally(answers.map(({ said, status }) => `${status} ${said.outcome}`))
    if (outcomes !== "200 applied × 1, 200 duplicate × 19") lost.push(`round ${round}: ${outcomes}`)
    for (const part of ["commandId", "revision"] as const) {
      const values = new Set(answers.map(({ said }) => said[part]))
      if (values.size !== 1) lost.push(`round ${round}: ${values.size} values of ${part}`)
    }
  }
  return { done: `${rounds} sandboxes, of which half were at work`, lost }
})

/** Ids by pages of that many. */
const walk = async (real: World, key: string, url: string, limit: number): Promise<ReadonlyArray<string>> => {
  const all: Array<string> = []
  for (let after = "";;) {
    const { said, status, text } = await real.ask(url, `${SANDBOXES}?limit=${limit}${after}`, { key })
    if (status !== 200) throw new Error(`a list: ${status} ${text}`)
    all.push(...(said.data ?? []).map(({ id }) => id))
    if (said.nextCursor === null || said.nextCursor === undefined) return all
    after = `&after=${encodeURIComponent(said.nextCursor)}`
  }
}

const BEFORE = 50
const A_SECOND = 50
const WALKS_MILLIS = 3_000

both("10 the list by pages of 1 and of 100, while 50 sandboxes a second are made", {
  "a page leaves one out": {
    plant: saying((address) => address.includes("limit=100"), (said) => ({ ...said, data: said.data?.slice(0, -1) })),
    tells: /those of before/u
  },
  // The answer of a list with offsets after an insert at the front: the last item of a page again.
  "pages by place": {
    plant: (() => {
      let last: SaidEvent | undefined
      return saying((address) => address.includes("limit=1&"), (said) => {
        const data = last === undefined ? said.data : [last]
        last = said.data?.at(-1)
        return { ...said, data }
      })
    })(),
    tells: /an id twice/u
  }
}, async (real, urls) => {
  const lost: Array<string> = []
  const [{ key }, { key: foreignKey }] = [await real.mint("--grant", unique()), await real.mint("--grant", unique())]
  for (const _ of times(BEFORE)) await Worlds.create(real, "[[hang]]", {}, key)
  const before = await walk(real, key, real.urls[0], 100)
  const [made, foreign] = [new Set<string>(), new Set<string>()]
  let isOver = false
  const making = (async () => {
    const asked: Array<Promise<unknown>> = []
    for (let i = 0; !isOver && i < 5 * A_SECOND; i++, await pause(1000 / A_SECOND)) {
      const [by, ids] = i % 5 === 0 ? [foreignKey, foreign] : [key, made]
      asked.push(Worlds.create(real, "[[hang]]", {}, by).then((id) => ids.add(id)))
    }
    await Promise.all(asked)
  })()
  const walks: Array<readonly [limit: number, ids: ReadonlyArray<string>]> = []
  for (const end = Date.now() + WALKS_MILLIS; Date.now() < end;) {
    for (const [url, limit] of [[urls[0], 1], [urls[1], 1], [urls[0], 100], [urls[1], 100]] as const) {
      walks.push([limit, await walk(real, key, url, limit)])
    }
  }
  isOver = true
  await making
  for (const [limit, ids] of walks) {
    const known = new Set(before)
    if (new Set(ids).size !== ids.length) lost.push(`pages of ${limit}: an id twice`)
    if (ids.filter((id) => known.has(id)).join() !== before.join()) lost.push(`pages of ${limit}: those of before are not as they were`)
    if (ids.some((id) => foreign.has(id))) lost.push(`pages of ${limit}: another grant's`)
    if (ids.slice(-before.length).join() !== before.join()) lost.push(`pages of ${limit}: the order is another one`)
  }
  const cursor = (await real.ask(urls[0], `${SANDBOXES}?limit=1`, { key })).said.nextCursor ?? ""
  const swapped = `${cursor.slice(0, 9)}${cursor[9] === "A" ? "B" : "A"}${cursor.slice(10)}`
  const refused = [
    await real.ask(urls[1], `${SANDBOXES}?after=${encodeURIComponent(cursor)}`, { key: foreignKey }),
    await real.ask(urls[1], `${SANDBOXES}?after=${encodeURIComponent(swapped)}`, { key })
  ]
  for (const { said, status } of refused) if (status !== 400) lost.push(`a bad cursor: ${status} ${said.error?.code}`)
  await Promise.all([...before, ...made, ...foreign].map((id) => Worlds.terminate(real, id, foreign.has(id) ? foreignKey : key)))
  return { done: `${walks.length} walks over ${before.length} sandboxes while ${made.size + foreign.size} were made`, lost }
})

// ---------------------------------------------------------------------------------------------------------------

/** Milliseconds within which what is open must be closed (docs/decisions/9). */
const CLOSED_MILLIS = 1_000

/** A response that is read slowly. */
interface Held {
  readonly isOpen: () => boolean
  readonly close: () => void
}

/** Once it has begun. */
const hold = (url: string, address: string, key: string): Promise<Held> =>
  new Promise((resolve, reject) => {
    const request = get(url + address, { agent: false, headers: { authorization: `Bearer ${key}` } }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`${address}: ${response.statusCode}`))
      const { localPort = 0 } = response.socket
      response.on("data", () => {
        response.pause()
        setTimeout(() => response.resume(), 20)
      })
      response.on("error", () => {})
      resolve({ isOpen: () => Worlds.carried(url).has(localPort), close: () => void request.destroy() })
    })
    request.on("error", reject)
  })

const LARGE = "[[shell head -c 40000000 /dev/zero > large]]"

const revoked = (
  what: string,
  refusal: 401 | 403,
  begin: (real: World) => Promise<{ readonly key: string; readonly revoke: () => Promise<unknown> }>,
  defects: Readonly<Record<string, Defect>> = {}
) =>
  both(`14 ${what}, with requests, streams and a download open at both processes`, defects, async (real, urls) => {
    const { key, revoke } = await begin(real)
    const id = await Worlds.create(real, LARGE, {}, key)
    await Worlds.turnEnd(real, id, key)
    const open = await Promise.all(urls.flatMap((url) => [
      hold(url, `${SANDBOXES}/${id}/events/stream`, key),
      hold(url, `${SANDBOXES}/${id}/files/download?path=large`, key)
    ]))
    let isOver = false
    const asked: Array<{ readonly at: number; readonly status: number }> = []
    const hammering = times(8).map(async (i) => {
      while (!isOver) {
        const at = Date.now()
        // Refused keys are counted by address.
        const from = `127.4.${asked.length >> 5 & 255}.${1 + i}`
        asked.push({ at, status: (await real.ask(urls[i % 2] ?? "", `${SANDBOXES}/${id}`, { key, from })).status })
      }
    })
    await pause(300)
    const early = open.filter(({ isOpen }) => !isOpen()).length
    await revoke()
    const at = Date.now()
    const closed = new Map<Held, number>()
    while (Date.now() < at + 1.5 * CLOSED_MILLIS) {
      for (const response of open) if (!closed.has(response) && !response.isOpen()) closed.set(response, Date.now() - at)
      await pause(20)
    }
    isOver = true
    await Promise.all(hammering)
    for (const { close } of open) close()
    await Worlds.terminate(real, id)
    const after = asked.filter((request) => request.at > at).map(({ status }) => status)
    const lost = after.filter((status) => status !== refusal).map((status) => `a request after it was answered ${status}`)
    if (after.length === 0 || !asked.some(({ status }) => status === 200)) lost.push("nothing was asked before or after it")
    if (early > 0) lost.push(`${early} responses had ended before it`)
    const last = Math.max(0, ...closed.values())
    if (closed.size < open.length || last > CLOSED_MILLIS) lost.push(`${closed.size} of ${open.length} responses ended, within ${last} ms`)
    const told = `${asked.length} requests, ${after.length} of them after it and answered ${refusal}`
    return { done: `${told}; 2 streams and 2 downloads ended within ${last} ms`, lost }
  })

revoked("a key is revoked", 401, async (real) => {
  const { id, key } = await real.mint("--grant", "shop")
  return { key, revoke: () => real.admin("keys", "revoke", id) }
}, {
  "a process remembers who was good": {
    plant: (() => {
      const known = new Map<string, PlantedServer.Answer>()
      return {
        ask: (asked) => known.get(asked.path) ?? asked,
        reply: (answer, { path }) => {
          if (answer.status === 200 && /\/c_\w+$/u.test(path)) known.set(path, answer)
          return answer
        }
      }
    })(),
    tells: /a request after it was answered 200/u
  },
  "a stream is never ended": { plant: { block: () => new Promise(() => {}) }, tells: /^[0-3] of 4 responses ended/u }
})
revoked("a grant is revoked", 401, async (real) => {
  const grant = unique()
  const { key } = await real.mint("--grant", grant)
  return { key, revoke: () => real.admin("grants", "revoke", grant) }
})
revoked("a member is removed", 403, async (real) => {
  const member = `member-${unique().slice(0, 8)}`
  await real.admin("members", "add", member)
  await real.admin("users", "approve", member)
  const { key } = await real.mint("--grant", "shop", "--user", member)
  return { key, revoke: () => real.admin("members", "remove", member) }
})

// ---------------------------------------------------------------------------------------------------------------

const REALM = "Bearer realm=\"slipway\""
const INVALID = `${REALM}, error="invalid_token", error_description="The API key is not valid."`
const SCOPE = `${REALM}, error="insufficient_scope", scope="sandboxes"`

interface Refused {
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string>>>
  readonly query?: string
  readonly status: number
  readonly challenge: string | undefined
}

/** Everything of the API that the service says it has. */
const operations = async ({ ask, urls }: World): Promise<ReadonlyArray<readonly [method: string, path: string]>> => {
  const { text } = await ask(urls[0], "/openapi.json")
  const { paths }: { readonly paths: Readonly<Record<string, object>> } = JSON.parse(text)
  return Object.entries(paths).filter(([path]) => path.startsWith(Worlds.API)).flatMap(([path, methods]) =>
    Object.keys(methods).filter((method) => /^(?:get|post|put|delete|patch)$/u.test(method)).map((method) =>
      [method.toUpperCase(), path.replace("{sandboxId}", "c_zzzzzzzzzzzz").replaceAll(/\{\w+\}/gu, "x")] as const
    )
  )
}

both("23 thirteen invalid credentials on every path of both processes, before 404, 405 and 400", {
  "one path looks for the object first": {
    plant: {
      reply: (answer, { path }) => answer.status === 401 && path.includes("/interrupt") ? { ...answer, status: 404 } : answer
    },
    tells: /^nothing: POST .*interrupt is 404/u
  },
  "a key in the query is taken": {
    plant: { reply: (answer, { path }) => path.includes("?access_token") ? { ...answer, status: 200 } : answer },
    tells: /^a key in the query: .* is 200/u
  }
}, async (real, urls) => {
  const { key } = real
  const gone = await real.mint("--grant", "shop")
  await real.admin("keys", "revoke", gone.id)
  const scopeless = await real.mint("--grant", "shop", "--scopes", "none")
  const member = `member-${unique().slice(0, 8)}`
  await real.admin("members", "add", member)
  await real.admin("users", "approve", member)
  const left = await real.mint("--grant", "shop", "--user", member)
  await real.admin("members", "remove", member)
  const header = (authorization: string | ReadonlyArray<string>, challenge = INVALID): Refused => ({
    headers: { authorization },
    status: challenge === SCOPE ? 403 : 401,
    challenge
  })
  const ways: Readonly<Record<string, Refused>> = {
    "nothing": { headers: {}, status: 401, challenge: REALM },
    "a key in the query": { headers: {}, query: `access_token=${key}&key=${key}`, status: 401, challenge: REALM },
    "Basic": header(`Basic ${Buffer.from(`x:${key}`).toString("base64")}`, REALM),
    "a key without a scheme": header(key, REALM),
    "a scheme without a key": header("Bearer"),
    "two spaces": header(`Bearer  ${key}`),
    "trailing text": header(`Bearer ${key} x`),
    "two headers": header([`Bearer ${key}`, `Bearer ${key}`]),
    "8 KiB": header(`Bearer ${key}${"x".repeat(8192)}`),
    "a bad checksum": header(`bearer ${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}`),
    "a revoked key": header(`Bearer ${gone.key}`),
    "no scope": header(`Bearer ${scopeless.key}`, SCOPE),
    "a removed member": { headers: { authorization: `Bearer ${left.key}` }, status: 403, challenge: undefined }
  }
  const all = [...await operations(real), ["GET", "/api/nothing"], ["DELETE", SANDBOXES], ["GET", `${SANDBOXES}/%00`], [
    "GET",
    `${SANDBOXES}?limit=0`
  ]] as const
  const lost: Array<string> = []
  let asked = 0
  for (const [way, { challenge, headers, query, status }] of Object.entries(ways)) {
    for (const [method, address] of all) {
      const url = urls[asked % 2] ?? ""
      const withQuery = query === undefined ? address : `${address}${address.includes("?") ? "&" : "?"}${query}`
      // Keys that are none are counted by address: each asks some.
      const from = `127.1.${asked >> 12 & 255}.${1 + (asked >> 4 & 127)}`
      asked++
      const body = method === "POST" ? { body: "{}" } : {}
      const answer = await real.ask(url, withQuery, { method, headers, from, ...body })
      if (answer.status !== status || answer.headers["www-authenticate"] !== challenge) {
        lost.push(`${way}: ${method} ${address} is ${answer.status} ${answer.headers["www-authenticate"] ?? "without a challenge"}`)
      }
    }
  }
  return { done: `${Object.keys(ways).length} ways at ${all.length} operations, ${asked} requests`, lost }
})

swept()
