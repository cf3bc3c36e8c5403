import { assert, describe, it } from "@effect/vitest"
import { readDevContainer } from "@slipway/domain/environment/rules/DevContainer"
import type { Environment } from "@slipway/domain/environment/rules/Environment"
import * as JsonWithComments from "@slipway/domain/environment/rules/JsonWithComments"
import * as Arbitrary from "effect/Arbitrary"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const FILE = ".devcontainer.json"
const surroundings = { workspaceFolder: "/work/shop", env: new Map([["HOME", "/home/agent"]]) }
const readText = (content: string) => readDevContainer(FILE, content, surroundings)
const environment = (value: unknown): Environment => Result.getOrThrow(readText(JSON.stringify(value)))
const problem = (value: unknown): string =>
  Result.match(readText(JSON.stringify(value)), { onFailure: ({ message }) => message.replace(`${FILE}: `, ""), onSuccess: () => "none" })

describe("JSON with comments", () => {
  it("has comments and trailing commas, and neither in a string", () => {
    assert.deepStrictEqual(
      JsonWithComments.parse(`// one
        { /* two
        */ "a": "// no, /* no */ ,]", "b": [1, 2, /* x */ // y
        ], "c": "\\",}", }`),
      { a: "// no, /* no */ ,]", b: [1, 2], c: "\",}" }
    )
  })

  it("may have comments of nothing, beside texts of nothing, and comments that end in a quote", () => {
    assert.deepStrictEqual(
      JsonWithComments.parse("{//\n\"a\":\"\",/**/\"b\"/***/:\"//\",\"c\":[\"\",/* \"d\"*/ \"e\", // \"f\"\n],}"),
      { a: "", b: "//", c: ["", "e"] }
    )
  })

  it("says where the text breaks as the text counts", () => {
    assert.throws(() => JsonWithComments.parse("{ /* a comment\n */ \"a\" 1 }"), /position 23 \(line 2 column 9\)/u)
  })

  it.each(["[1,,]", "{,}", "[,]", "[1 /* open", "{\"a", "// all", "[1]/"])("does not make JSON of %j", (text) => {
    assert.throws(() => JsonWithComments.parse(text), SyntaxError)
  })

  it.prop("is JSON when it is JSON", [Schema.Json], ([value]) => {
    const text = JSON.stringify(value)
    assert.strictEqual(JSON.stringify(JsonWithComments.parse(text)), JSON.stringify(JSON.parse(text)))
  }, { arbitrary: { runs: 200 } })

  const pieces = Arbitrary.array(
    Arbitrary.schema(Schema.Literals([",", "//", "/*", "*/", " ", "\n", "\"", "\\", "[", "]", "{", "}", "1"])),
    {
      maxLength: 40
    }
  )
  it.prop("that is invalid is refused like invalid JSON, wherever its comments stand", [pieces], ([signs]) => {
    assert.isTrue(Result.isResult(readText(signs.join(""))))
  }, { arbitrary: { runs: 500 } })

  it.each(["//", "/*", ", ", ",//\n", "// ", "\"", "\\", ",\n"])("of 64 KiB of %j is read in one walk", (signs) => {
    // Minutes, if a text could be divided in more than one way.
    assert.isTrue(Result.isFailure(readText(signs.repeat(64 * 1024 / signs.length))))
  })
})

describe("a devcontainer.json", () => {
  it("needs nothing", () => {
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
      source: "devcontainer"
    })
  })

  it("has commands in the order of a container's life: lines for the shell, lists for no shell, names side by side", () => {
    const { setup } = environment({
      postCreateCommand: { server: "npm ci", client: ["npm", "ci", "--prefix", "a b"], nothing: "" },
      updateContentCommand: ["git", "lfs", "pull"],
      onCreateCommand: "make tools"
    })
    assert.deepStrictEqual(setup, [
      [{ key: "onCreateCommand", argv: ["/bin/sh", "-c", "make tools"] }],
      [{ key: "updateContentCommand", argv: ["git", "lfs", "pull"] }],
      [
        { key: "postCreateCommand.server", argv: ["/bin/sh", "-c", "npm ci"] },
        { key: "postCreateCommand.client", argv: ["npm", "ci", "--prefix", "a b"] }
      ]
    ])
  })

  it("runs nothing for commands of nothing", () => {
    assert.deepStrictEqual(environment({ onCreateCommand: " ", updateContentCommand: [], postCreateCommand: {} }).setup, [])
    assert.deepStrictEqual(environment({ onCreateCommand: "", updateContentCommand: [""], postCreateCommand: { a: [""] } }).setup, [])
  })

  it("names what does not count, and not what asks for nothing", () => {
    const file = { name: "Shop", $schema: "x", image: "node:24", features: {}, postStartCommand: "x", "bad\u202e": 1 }
    const { ignored, image } = environment(file)
    assert.deepStrictEqual(ignored, ["features", "postStartCommand", "bad⟨RIGHT-TO-LEFT OVERRIDE⟩"])
    assert.strictEqual(image, "node:24")
    assert.lengthOf(environment(Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`k${i}`, 1]))).ignored, 100)
  })

  it("sets variables of the container, then those of its tools, which may use, replace and remove the first", () => {
    const { env, ignored } = environment({
      containerEnv: { A: "1", B: "2", C: "3", WHERE: "${containerWorkspaceFolder}/x" },
      remoteEnv: { B: "${containerEnv:A}2", C: null, DIR: "${containerEnv:HOME}/d", NAME: "${localWorkspaceFolderBasename}" }
    })
    assert.deepStrictEqual(env, { A: "1", B: "12", WHERE: "/work/shop/x", DIR: "/home/agent/d", NAME: "shop" })
    assert.deepStrictEqual(ignored, [])
  })

  it("leaves out and names variables that the service sets, that have no name, or that need a machine of somebody", () => {
    const { env, ignored } = environment({
      containerEnv: { TOKEN: "${localEnv:TOKEN}", HERE: "${localEnv:HERE:fallback}", NONE: "${localEnv:NONE:}", "a-b": "1" },
      remoteEnv: { PATH: "${containerEnv:PATH}:/opt/bin", X: "a${containerEnv:Y}" }
    })
    assert.deepStrictEqual(env, { HERE: "fallback", NONE: "" })
    assert.deepStrictEqual(ignored, [
      "containerEnv.TOKEN (${localEnv:TOKEN})",
      "containerEnv.a-b",
      "remoteEnv.PATH",
      "remoteEnv.X (${containerEnv:Y})"
    ])
  })

  it("keeps a variable of any name a variable", () => {
    const { env } = Result.getOrThrow(readText("{\"containerEnv\":{\"__proto__\":\"a\",\"toString\":\"b\"}}"))
    assert.deepStrictEqual(Object.entries(env), [["__proto__", "a"], ["toString", "b"]])
    assert.deepStrictEqual(environment({ containerEnv: { A: "${containerEnv:constructor}" } }).env, {})
  })

  it("replaces in commands what it knows, and leaves the shell's own to the shell", () => {
    const [step] = environment({
      containerEnv: { A: "1" },
      postCreateCommand: "cd ${containerWorkspaceFolder} && echo ${HOME} $A ${A:-x} ${containerEnv:A} [${localEnv:B}] ${localEnv:B:c}"
    }).setup
    assert.deepStrictEqual(step?.[0]?.argv[2], "cd /work/shop && echo ${HOME} $A ${A:-x} 1 [] c")
  })

  it("replaces in lists too, by what the box and the file set", () => {
    const { setup } = environment({
      containerEnv: { A: "1" },
      postCreateCommand: ["ls", "${containerEnv:HOME}", "${containerEnv:A}", "${containerWorkspaceFolder}"]
    })
    assert.deepStrictEqual(setup[0]?.[0]?.argv, ["ls", "/home/agent", "1", "/work/shop"])
  })

  it("knows no variable of a machine of somebody, also if the box has one of its name", () => {
    assert.deepStrictEqual(environment({ containerEnv: { X: "${localEnv:HOME}" } }).ignored, ["containerEnv.X (${localEnv:HOME})"])
    assert.deepStrictEqual(environment({ containerEnv: { X: "${localEnv:A}${localEnv:B}" } }).ignored, ["containerEnv.X (${localEnv:A})"])
  })

  it("may set variables to nothing, and 8,192 characters by others at most", () => {
    const most = "x".repeat(8_192)
    const { env, ignored, setup } = environment({
      containerEnv: { A: most, ONE: "y", NOTHING: "", SAME: "${containerEnv:A}", MORE: "${containerEnv:A}${containerEnv:ONE}" },
      remoteEnv: { NONE: "" },
      postCreateCommand: "${localEnv:B}${containerEnv:A}${containerEnv:ONE}"
    })
    assert.deepStrictEqual(env, { A: most, ONE: "y", NOTHING: "", SAME: most, NONE: "" })
    assert.deepStrictEqual(ignored, ["containerEnv.MORE (${containerEnv:ONE})"])
    assert.deepStrictEqual(setup[0]?.[0]?.argv[2], most)
  })

  const many = (count: number, value: unknown) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`A${i}`, value]))
  it.each([
    ["arguments", 256, (count: number) => ({ postCreateCommand: Array.from({ length: count }, () => "x") })],
    ["commands by name", 64, (count: number) => ({ postCreateCommand: many(count, "x") })],
    ["variables of the container", 100, (count: number) => ({ containerEnv: many(count, "x") })],
    ["variables of its tools", 100, (count: number) => ({ remoteEnv: many(count, "x") })]
  ])("has at most as many %s as its limit, %i", (_, limit, file) => {
    assert.strictEqual(problem(file(limit)), "none")
    assert.notStrictEqual(problem(file(limit + 1)), "none")
  })

  it("cannot make variables grow without end", () => {
    const names = Array.from({ length: 60 }, (_, i) => `A${i}`)
    const { env } = environment({
      containerEnv: Object.fromEntries(names.map((name, i) => [name, i === 0 ? "x".repeat(100) : `\${containerEnv:A${i - 1}}`.repeat(9)]))
    })
    for (const [name, value] of Object.entries(env)) assert.isAtMost(value.length, 8_192, name)
  })

  it.each<readonly [what: string, value: unknown, said: RegExp]>([
    ["a command that is a number", { postCreateCommand: 5 }, /^postCreateCommand: expected /u],
    ["a list with a number", { onCreateCommand: ["a", 5] }, /^onCreateCommand\[1\]: expected string|^onCreateCommand: expected /u],
    ["a variable that is a number", { containerEnv: { PORT: 5 } }, /^containerEnv\.PORT: expected string$/u],
    ["a removed variable of the container", { containerEnv: { A: null } }, /^containerEnv\.A: expected string$/u],
    ["an image of no name", { image: "" }, /^image: expected 1 to 255 characters$/u],
    ["the id of a container", { postCreateCommand: ["echo", "${devcontainerId}"] },
      /^postCreateCommand: \$\{devcontainerId\} is not known here$/u],
    ["a list in place of an object", [], /^is no JSON object$/u]
  ])("is refused with %s, by its key", (_, value, said) => assert.match(problem(value), said))

  it("has 64 KiB at most", () => {
    assert.isTrue(Result.isFailure(readText(`{}${" ".repeat(64 * 1024)}`)))
  })

  it.prop("of any text is read or refused, never thrown at", [Schema.String], ([content]) => {
    assert.isTrue(Result.isResult(readText(content)))
  }, { arbitrary: { runs: 300 } })

  const keys = ["onCreateCommand", "updateContentCommand", "postCreateCommand", "containerEnv", "remoteEnv", "image"]
  it.prop("with any values is read or refused by a key that is in it", [Schema.Array(Schema.Json)], ([values]) => {
    const result = readText(JSON.stringify(Object.fromEntries(values.map((value, i) => [keys[i % keys.length], value]))))
    if (Result.isFailure(result)) assert.include(keys.slice(0, values.length), result.failure.key.split(/[.[]/u)[0])
  }, { arbitrary: { runs: 300 } })
})
