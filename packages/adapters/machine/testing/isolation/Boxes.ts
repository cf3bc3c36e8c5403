/** vitest globalSetup: a machine without boxes fails the suite, whose whole purpose they are. */
import { absent } from "../hosts/bubblewrap.fixture.ts"

export default () => {
  if (absent !== undefined) throw new Error(`The escape suite needs boxes, and there are none here: ${absent}`)
}
