import { assert, describe, it } from "@effect/vitest"
import { formsOf, inBase64, linesOf, partsOf } from "@slipway/domain/environment/redaction/Forms"

const escaped = (...codes: ReadonlyArray<string>) => codes.map((code) => String.raw`\u${code}`).join("")

describe("the forms of a secret", () => {
  const json = [
    String.raw`aé/'*+ ~<\"`,
    String.raw`aé/\u0027*+ ~\u003c\"`,
    String.raw`aé\/'*+ ~<\"`,
    String.raw`aé\/\u0027*+ ~\u003c\"`,
    String.raw`a\u00e9/'*+ ~<\"`,
    String.raw`a\u00e9/\u0027*+ ~\u003c\"`,
    String.raw`a\u00e9\/'*+ ~<\"`,
    String.raw`a\u00e9\/\u0027*+ ~\u003c\"`,
    String.raw`a\u00e9\u002f\u0027\u002a\u002b\u0020\u007e\u003c\u0022`,
    escaped("0061", "00e9", "002f", "0027", "002a", "002b", "0020", "007e", "003c", "0022")
  ]

  it("are itself, in JSON, in addresses, in hex and in base64", () =>
    assert.sameDeepMembers([...formsOf(`aé/'*+ ~<"`)], [
      `aé/'*+ ~<"`,
      ...json,
      ...json.map((text) => text.replaceAll("\\", "\\\\").replaceAll("\"", "\\\"")),
      "a%C3%A9%2F'*%2B%20~%3C%22",
      "a%C3%A9%2F%27%2a%2B%20~%3C%22",
      "a%C3%A9%2F%27*%2B+%7E%3C%22",
      "%61%c3%a9%2f%27%2a%2b%20%7e%3c%22",
      "61c3a92f272a2b207e3c22",
      "YcOpLycqKyB+PC",
      "HDqS8nKisgfjwi",
      "hw6kvJyorIH48I",
      "YcOpLycqKyB-PC",
      "HDqS8nKisgfjwi",
      "hw6kvJyorIH48I"
    ]))

  it("are in base64url where that differs", () => assert.includeMembers([...formsOf("~~~???")], ["fn5+Pz8/", "fn5-Pz8_"]))

  it("are spelled in escapes up to 2048 characters", () => {
    const isSpelled = (length: number) => formsOf("x".repeat(length)).includes(escaped(...Array<string>(length).fill("0078")))
    assert.deepStrictEqual([2_048, 2_049].map(isSpelled), [true, false])
  })

  it("include what is no Unicode as it is, and as it is encoded", () =>
    assert.includeMembers([...formsOf("a\ud800")], ["a\ud800", "a\ufffd", "a%EF%BF%BD"]))

  it.each([
    ["abc", ["YWJj", "FiY", "hYm"]],
    ["abcd", ["YWJjZ", "FiY2", "hYmNk"]],
    ["abcde", ["YWJjZG", "FiY2Rl", "hYmNkZ"]]
  ])(
    "are in base64, of %s, at each offset the characters that depend on it alone",
    (text, forms) => assert.deepStrictEqual(inBase64(new TextEncoder().encode(text)), forms)
  )
})

describe("the parts of a secret", () => {
  it("are its lines, however they end, without the names of formats and margins", () => {
    const key = "-----BEGIN KEY-----\none\r\n two \\nthree-----\n-----END KEY-----"
    assert.deepStrictEqual(linesOf(key), ["one", "two", "three-----"])
    assert.deepStrictEqual(partsOf(key), ["one", "two", "three-----"])
  })

  it.each<readonly [what: string, secret: string, parts: ReadonlyArray<string>]>([
    ["a password, as written and decoded", "https://ada:p%40ss@host/path", ["p%40ss", "p@ss"]],
    ["a password up to the last @", "https://ada:p@ss@host", ["p@ss", "p@ss"]],
    ["a password without a user", "redis://:word@host", ["word", "word"]],
    ["a password that cannot be decoded", "https://ada:p%zz@host", ["p%zz"]],
    ["a password without a host, of Postgres alone", "postgres://ada:word@/db", ["word", "word"]],
    ["the same by its longer scheme", "postgresql://ada:word@/db", ["word", "word"]],
    ["passwords in the query", "postgres://h/db?password=one&sslpassword=two#end", ["one", "one", "two", "two"]],
    ["the password of a URL in it", "https://host/?next=ftp://ada:word@host", ["word", "word"]],
    ["no empty password", "https://ada:@host/?password=&x=1", []],
    ["no user", "https://ada@host/a:b@c", []]
  ])("are of a URL %s", (_, secret, parts) => assert.deepStrictEqual(partsOf(secret), parts))

  it.each(["mailto:ada:word@host", "see ://ada:word@host", "at postgres://ada:word@/db", "https:/x"])(
    "are lines of %s, which is no URL",
    (text) => assert.deepStrictEqual(partsOf(text), [text])
  )
})
