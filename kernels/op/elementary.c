#include "kernels/op/elementary.h"

#include "engine/base/check.h"

#include <stdint.h>
#include <string.h>

/* Adding and subtracting 1.5 * 2^52 rounds a double to an integer. */
static const double TO_INTEGER = 0x1.8p52;

static const double LOG_2_HIGH = 0x1.62e42fefp-1; /* 33 bits, so small multiples are exact */
static const double LOG_2_LOW = 0x1.473de6af278edp-34;

static double power_of_two(int exponent)
{
	uint64_t bits = (uint64_t)(1023 + exponent) << 52;
	double result;

	memcpy(&result, &bits, sizeof(result));
	return result;
}

double elementary_exp(double x)
{
	if (x != x) {
		return x;
	}
	if (x > 700) {
		return power_of_two(1023) * 2; /* infinity */
	}
	if (x < -700) {
		return 0;
	}
	/* x = n log 2 + r with |r| <= log(2) / 2; the Taylor series of e^r to r^13 / 13! */
	double n = (x * 0x1.71547652b82fep+0 + TO_INTEGER) - TO_INTEGER;
	double r = (x - n * LOG_2_HIGH) - n * LOG_2_LOW;
	double sum = 1;
	for (int i = 13; i >= 1; i--) {
		sum = 1 + sum * r / i;
	}
	return sum * power_of_two((int)n);
}

double elementary_log(double x)
{
	int exponent = 0;
	uint64_t bits;

	check(x > 0);
	check(x <= 0x1.fffffffffffffp+1023);
	if (x < 0x1p-1022) {
		x *= 0x1p54;
		exponent = -54;
	}
	memcpy(&bits, &x, sizeof(bits));
	exponent += (int)(bits >> 52) - 1023;
	bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(1023) << 52;
	memcpy(&x, &bits, sizeof(x));
	if (x > 0x1.6a09e667f3bcdp+0) {
		x /= 2;
		exponent++;
	}
	/* log x = 2 artanh s with s = (x - 1) / (x + 1), |s| < 0.172; the series to s^23 / 23 */
	double s = (x - 1) / (x + 1);
	double sum = 0;
	for (int i = 23; i >= 1; i -= 2) {
		sum = sum * s * s + 1.0 / i;
	}
	return exponent * LOG_2_HIGH + (2 * s * sum + exponent * LOG_2_LOW);
}

double elementary_pow(double x, double y)
{
	return elementary_exp(y * elementary_log(x));
}

void elementary_sine_cosine(double x, double *sine, double *cosine)
{
	check(x >= 0);
	check(x <= 0x1p28);
	/* pi / 2 as a sum of three constants: n times the first is exact, n times the second
	   nearly so. */
	double n = (x * 0x1.45f306dc9c883p-1 + TO_INTEGER) - TO_INTEGER;
	double r = x - n * 0x1.921fb5p+0;
	r = r - n * 0x4.442d1p-28;
	r = r - n * 0x8.469898cc51701p-52;

	/* The Taylor series, |r| <= pi / 4, to r^17 / 17! and r^18 / 18! */
	double s = 1, c = 1;
	for (int i = 17; i >= 3; i -= 2) {
		s = 1 - s * r * r / ((i - 1) * i);
	}
	for (int i = 18; i >= 2; i -= 2) {
		c = 1 - c * r * r / ((i - 1) * i);
	}
	s *= r;
	switch ((int)((int64_t)n & 3)) {
	case 0:
		*sine = s, *cosine = c;
		break;
	case 1:
		*sine = c, *cosine = -s;
		break;
	case 2:
		*sine = -s, *cosine = -c;
		break;
	default:
		*sine = -c, *cosine = s;
		break;
	}
}
