import unittest

from calculator import add, divide


class Addition(unittest.TestCase):
    def test_two_numbers(self):
        self.assertEqual(add(2, 3), 5)

    def test_with_a_negative_one(self):
        self.assertEqual(add(2, -3), -1)


class Division(unittest.TestCase):
    def test_exact(self):
        self.assertEqual(divide(6, 3), 2)

    def test_by_zero_is_refused(self):
        with self.assertRaises(ValueError):
            divide(1, 0)


if __name__ == "__main__":
    unittest.main()
