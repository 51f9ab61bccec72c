#ifndef KERNELS_OP_ELEMENTARY_H
#define KERNELS_OP_ELEMENTARY_H

/* Elementary functions built from + - * / on doubles, which IEEE 754 rounds exactly. So no
   mathematical library affects a bit of the CPU twins. The relative error is below 10^-14; after
   rounding to float the result is the nearest float but for one case in 10^6. */

/* e^x. NaN stays NaN; the results over- and underflow to infinity and 0. */
double elementary_exp(double x);

/* Natural logarithm of a finite x > 0. */
double elementary_log(double x);

/* x^y for finite x > 0. */
double elementary_pow(double x, double y);

/* Sine and cosine of an angle in radians, 0 <= x <= 2^28; the absolute error is 10^-15. */
void elementary_sine_cosine(double x, double *sine, double *cosine);

#endif
