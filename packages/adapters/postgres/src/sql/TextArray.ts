/** A `text[]` literal, so that a list is one parameter and the statement stays the same whatever its length. */
export const textArray = (values: ReadonlyArray<string>): string =>
  `{${values.map((value) => `"${value.replace(/["\\]/gu, "\\$&")}"`).join(",")}}`
