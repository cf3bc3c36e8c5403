import { assert, describe, it } from "@effect/vitest"
import {
  type Environment,
  EnvironmentFile,
  jsonSchema,
  MAX_FILE_BYTES,
  parseFile,
  readEnvironment
} from "@slipway/domain/environment/rules/Environment"
import { environmentFile } from "@slipway/testing/histories/Arbitraries"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const FILE = ".slipway/environment.json"
const read = (value: unknown) => readEnvironment(FILE, JSON.stringify(value))
const environment = (value: unknown): Environment => Result.getOrThrow(read(value))
const problem = (result: Result.Result<Environment, { readonly message: string }>): string =>
  Result.isFailure(result) ? result.failure.message.replace(`${FILE}: `, "") : "none"

describe("an environment file", () => {
  it("needs nothing, and has its defaults", () => {
    assert.deepStrictEqual(environment({}), {
      setup: [],
      cache: [],
      cacheKey: null,
      env: {},
      secrets: [],
      egress: [],
      ports: [],
      timeoutMinutes: 10,
      onFailure: "continue",
      image: null,
      ignored: [],
      source: "slipway"
    })
  })

  it.each<readonly [key: string, most: number, file: (count: number) => object]>([
    ["secrets", 100, (count) => ({ secrets: Array.from({ length: count }, (_, i) => `S${i}`) })],
    ["egress", 100, (count) => ({ egress: Array.from({ length: count }, (_, i) => `h${i}:443`) })],
    ["ports", 10, (count) => ({ ports: Array.from({ length: count }, (_, i) => 3000 + i) })],
    ["ports[0].label", 40, (count) => ({ ports: [{ port: 3000, label: "x".repeat(count) }] })],
    ["ports[0]", 65_535, (count) => ({ ports: [count] })],
    ["cache[0]", 1_023, (count) => ({ cache: ["x".repeat(count)] })],
    ["cacheKey[0]", 1_023, (count) => ({ cacheKey: ["x".repeat(count)] })]
  ])("has in %s at most %i", (key, most, file) => {
    assert.strictEqual(problem(read(file(most))), "none")
    assert.isTrue(problem(read(file(most + 1))).startsWith(`${key}: `))
  })

  it("is named in its errors with its key, in 64 bytes of a name and 200 of a reason", () => {
    const refused = (content: string) => {
      const result = readEnvironment(FILE, content)
      return Result.isFailure(result) ? result.failure.message : "none"
    }
    assert.strictEqual(refused(JSON.stringify({ setup: [5] })), `${FILE}: setup[0]: expected string`)
    assert.strictEqual(refused(JSON.stringify({ ["x".repeat(64)]: 1 })), `${FILE}: ${"x".repeat(64)}: is not known.`)
    assert.strictEqual(refused(JSON.stringify({ ["x".repeat(65)]: 1 })), `${FILE}: ${"x".repeat(61)}…: is not known.`)
    assert.match(refused("x".repeat(1_000)), /^\.slipway\/environment\.json: is no JSON: /u)
  })

  it.each<readonly [thrown: unknown, said: string]>([
    [new Error("x".repeat(200)), "x".repeat(200)],
    [new Error("x".repeat(201)), `${"x".repeat(197)}…`],
    ["odd", "it cannot be read"]
  ])("is no JSON to a parser that throws %s", (thrown, said) => {
    const parsed = parseFile(FILE, "", () => {
      throw thrown
    })
    assert.strictEqual(Result.isFailure(parsed) ? parsed.failure.problem : "none", `is no JSON: ${said}`)
  })

  it("is read whole", () => {
    assert.deepStrictEqual(
      environment({
        $schema: "https://slipway.invalid/schemas/environment.json",
        setup: ["npm ci", "npm run build && true"],
        cache: ["./node_modules/", "~/.npm"],
        cacheKey: ["./a/../package-lock.json", "package-lock.json", ".npmrc"],
        env: { NODE_ENV: "test" },
        secrets: ["NPM_TOKEN"],
        egress: ["Registry.npmjs.org:443", "registry.npmjs.org:443"],
        ports: [3000, { port: 5173, label: "App" }],
        timeoutMinutes: 60,
        onFailure: "fail"
      }),
      {
        setup: [
          [{ key: "setup[0]", argv: ["/bin/sh", "-c", "npm ci"] }],
          [{ key: "setup[1]", argv: ["/bin/sh", "-c", "npm run build && true"] }]
        ],
        cache: [{ base: "tree", path: "node_modules" }, { base: "home", path: ".npm" }],
        cacheKey: ["package-lock.json", ".npmrc"],
        env: { NODE_ENV: "test" },
        secrets: ["NPM_TOKEN"],
        egress: ["registry.npmjs.org:443"],
        ports: [{ port: 3000, label: null }, { port: 5173, label: "App" }],
        timeoutMinutes: 60,
        onFailure: "fail",
        image: null,
        ignored: [],
        source: "slipway"
      }
    )
  })

  it("may begin with a byte order mark, and has none within", () => {
    assert.isTrue(Result.isSuccess(readEnvironment(FILE, "\ufeff{}")))
    assert.isTrue(Result.isFailure(readEnvironment(FILE, "{\"env\":\ufeff{}}")))
  })

  it.each<readonly [what: string, value: unknown, said: string]>([
    ["an unknown key, with the nearest known one", { setpu: [] }, "setpu: is not known. Did you mean setup?"],
    ["a key that is like no other", { postgres: 17 }, "postgres: is not known."],
    ["a list in place of an object", [], "is no JSON object"],
    ["a command in place of a list", { setup: "npm ci" }, "setup: expected array"],
    ["a command that is no text", { setup: ["a", 1] }, "setup[1]: expected string"],
    ["a command of spaces", { setup: ["a", "b", " "] }, "setup[2]: is empty"],
    ["a command with NUL", { setup: ["a\0"] }, "setup[0]: expected well-formed Unicode without NUL"],
    ["a command that is too long", { setup: ["a".repeat(8_193)] }, "setup[0]: expected 1 to 8192 characters"],
    ["too many commands", { setup: Array(65).fill("a") }, "setup: expected a value with a length of at most 64"],
    ["too many caches", { cache: Array.from({ length: 33 }, (_, i) => `c${i}`) }, "cache: expected a value with a length of at most 32"],
    ["an empty cache", { cache: [""] }, "cache[0]: expected 1 to 1023 characters"],
    ["a cache that climbs", { cache: ["a/../../b"] }, "cache[0]: climbs out of the tree"],
    ["two caches, one in the other", { cache: ["a", "b", "./b/c"] }, "cache[2]: is, holds or lies in cache[1]"],
    ["an empty file of a key", { cacheKey: [""] }, "cacheKey[0]: expected 1 to 1023 characters"],
    ["a key's file that climbs", { cacheKey: ["a", "../b"] }, "cacheKey[1]: climbs out of the tree"],
    ["a key's file from the root", { cacheKey: ["/etc/passwd"] }, "cacheKey[0]: starts with /: name a file in the tree"],
    ["a key's file that is a pattern", { cacheKey: ["*.lock"] }, "cacheKey[0]: is a pattern: name each file"],
    ["a key's file of git", { cacheKey: [".git/HEAD"] }, "cacheKey[0]: is git's own"],
    ["the tree as a key's file", { cacheKey: ["./"] }, "cacheKey[0]: is the whole of the tree"],
    ["too many files of a key", { cacheKey: Array(65).fill("a") }, "cacheKey: expected a value with a length of at most 64"],
    ["a variable that the service sets", { env: { A: "1", PATH: "/" } }, "env.PATH: is set by the service itself"],
    ["a variable that no shell can name", { env: { "a-b": "1" } }, "env.a-b: is no name of a variable"],
    ["a variable that is a number", { env: { PORT: 1 } }, "env.PORT: expected string"],
    ["a value that is too long", { env: { A: "a".repeat(8_193) } }, "env.A: expected 0 to 8192 characters"],
    [
      "too many variables",
      { env: Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`A${i}`, ""])) },
      "env: expected a value with at most 100 entries"
    ],
    ["a secret that the service sets", { secrets: ["HOME"] }, "secrets[0]: expected a name that the service does not set itself"],
    ["a port twice", { ports: [3000, { port: 3000, label: "App" }] }, "ports[1]: is ports[0] again"],
    ["a secret twice", { secrets: ["A", "B", "A"] }, "secrets[2]: is secrets[0] again"],
    ["a secret that is a variable too", { secrets: ["B", "A"], env: { A: "" } }, "secrets[1]: is in env too"],
    ["a destination without a port", { egress: ["pypi.org"] }, "egress[0]: is no name with a port, such as registry.npmjs.org:443"],
    ["a destination that is an address", { egress: ["10.0.0.1:443"] }, "egress[0]: is no name with a port, such as registry.npmjs.org:443"],
    ["a destination of 260 characters", { egress: [`${"a.".repeat(127)}ab:443`] },
      "egress[0]: is no name with a port, such as registry.npmjs.org:443"],
    ["no time", { timeoutMinutes: 0 }, "timeoutMinutes: expected a value between 1 and 60"],
    ["too much time", { timeoutMinutes: 61 }, "timeoutMinutes: expected a value between 1 and 60"],
    ["part of a minute", { timeoutMinutes: 1.5 }, "timeoutMinutes: expected an integer"],
    ["another end", { onFailure: "retry" }, "onFailure: expected \"fail\" | \"continue\""]
  ])("is refused with %s", (_, value, said) => assert.strictEqual(problem(read(value)), said))

  it("is refused when it is no JSON, with where it breaks", () => {
    assert.match(problem(readEnvironment(FILE, "{\"setup\" 1}")), /^is no JSON: .*position 9/u)
    assert.match(problem(readEnvironment(FILE, "")), /^is no JSON: /u)
  })

  it("has 64 KiB at most", () => {
    const filled = (bytes: number) => `{}${" ".repeat(bytes - 2)}`
    assert.isTrue(Result.isSuccess(readEnvironment(FILE, filled(MAX_FILE_BYTES))))
    assert.strictEqual(problem(readEnvironment(FILE, filled(MAX_FILE_BYTES + 1))), "is larger than 64 KiB")
  })

  it("shows of a key what can be seen of it", () => {
    assert.strictEqual(problem(read({ "\u202esetup": [] })), "⟨RIGHT-TO-LEFT OVERRIDE⟩setup: is not known.")
    assert.isBelow(problem(read({ ["k".repeat(60_000)]: 1 })).length, 200)
  })

  it("has a JSON Schema for editors with its limits, in which each key is described", () => {
    const { $defs, ...document } = jsonSchema()
    assert.deepStrictEqual<object>(document, {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      title: "What the sandboxes of a repository need",
      $ref: "#/$defs/EnvironmentFile"
    })
    const { properties, ...file } = $defs["EnvironmentFile"] as Record<string, unknown>
    assert.deepStrictEqual(file, { type: "object", additionalProperties: false })
    const port = { type: "integer", minimum: 1_024, maximum: 65_535 }
    const path = { type: "string", minLength: 1, maxLength: 1_023, pattern: "^[^/*][^*]*$" }
    const limits: Readonly<Record<string, object>> = {
      $schema: { type: "string", minLength: 0, maxLength: 1_023 },
      setup: { type: "array", maxItems: 64, items: { type: "string", minLength: 1, maxLength: 8_192, pattern: "\\S" } },
      cache: { type: "array", maxItems: 32, items: path },
      cacheKey: { type: "array", maxItems: 64, items: path },
      env: {
        type: "object",
        maxProperties: 100,
        propertyNames: { type: "string", pattern: "^[A-Za-z_][A-Za-z0-9_]{0,63}$" },
        additionalProperties: { type: "string", minLength: 0, maxLength: 8_192 }
      },
      secrets: { type: "array", maxItems: 100, items: { type: "string", pattern: "^[A-Z_][A-Z0-9_]{0,63}$" } },
      egress: { type: "array", maxItems: 100, items: { type: "string", pattern: "^[A-Za-z0-9.-]{1,253}:[0-9]{1,5}$" } },
      ports: {
        type: "array",
        maxItems: 10,
        items: {
          anyOf: [port, {
            type: "object",
            properties: { port, label: { type: "string", minLength: 1, maxLength: 40 } },
            required: ["port", "label"],
            additionalProperties: false
          }]
        }
      },
      timeoutMinutes: { type: "integer", minimum: 1, maximum: 60 },
      onFailure: { type: "string", enum: ["fail", "continue"] }
    }
    assert.deepStrictEqual(Object.keys(properties as object), Object.keys(limits))
    for (const [key, { allOf: [{ description }], ...limit }] of Object.entries<any>(properties as object)) {
      assert.deepStrictEqual(limit, limits[key], key)
      assert.match(description, /^[A-Z].*\.$/u, key)
    }
  })

  it.prop("comes back as it was written", [environmentFile], ([file]) => {
    const Wire = Schema.fromJsonString(EnvironmentFile)
    const decoded = Schema.decodeUnknownSync(Wire, { onExcessProperty: "error" })(Schema.encodeSync(Wire)(file))
    assert.strictEqual(JSON.stringify(decoded), JSON.stringify(file))
  }, { arbitrary: { runs: 200 } })

  it.prop("that says nothing wrong is read, whatever it leaves out", [environmentFile], ([file]) => {
    const secret = file.secrets?.find((name) => Object.hasOwn(file.env ?? {}, name))
    assert.strictEqual(problem(read(file)), secret === undefined ? "none" : `secrets[${file.secrets?.indexOf(secret)}]: is in env too`)
  }, { arbitrary: { runs: 200 } })

  it.prop("of any text is read or refused, never thrown at", [Schema.String], ([content]) => {
    assert.isTrue(Result.isResult(readEnvironment(FILE, content)))
  }, { arbitrary: { runs: 300 } })

  it.prop("of any JSON is refused with a key that is in it", [Schema.Record(Schema.String, Schema.Json)], ([value]) => {
    const result = read(value)
    if (Result.isSuccess(result)) return
    const [key = ""] = result.failure.key.split(/[.[]/u)
    assert.isTrue(key === "" || key.endsWith("…") || key.includes("⟨") || Object.keys(value).some((one) => one.startsWith(key)), key)
  }, { arbitrary: { runs: 300 } })

  it.prop("with one value replaced by any other is read or refused by that key", [environmentFile, Schema.Json], ([file, value]) => {
    for (const key of Object.keys(EnvironmentFile.fields)) {
      const result = read({ ...file, [key]: value })
      // A name may be in both.
      const told = key === "env" ? ["env", "secrets"] : [key]
      if (Result.isFailure(result)) assert.include(told, result.failure.key.split(/[.[]/u)[0])
    }
  }, { arbitrary: { runs: 200 } })
})
