// Round numbers for axes. Pure.

/**
 * The smallest of 2, 4, 6, 10, 20, 40, 60, 100, … that is not below a number. All are even, so that the middle of the axis is a whole number.
 * @param {number} most
 */
export function ceiling(most) {
  for (let power = 1; ; power *= 10) {
    for (const factor of [2, 4, 6, 10]) if (factor * power >= most) return factor * power;
  }
}
